//! Our own credentials, kept out of what a tool says.

use inspan_wire::v1;
use inspan_wire::v1::{file_part::Source, part::Part};
use prost_types::value::Kind;

/// What stands where a secret stood.
const MASK: &str = "[secret]";

/// Shorter values are not looked for: they would be found in texts that have nothing to do with them.
const LENGTH_MIN: usize = 8;

/// The secrets that one executor sends. A tool that repeats one of them must not bring it into the journal.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Longest first, so that a secret that is part of another leaves no rest of it.
    pub(super) fn new(values: impl IntoIterator<Item = String>) -> Secrets {
        let mut values: Vec<String> = values.into_iter().filter(|value| value.len() >= LENGTH_MIN).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Secrets(values)
    }

    /// The text without them.
    pub(super) fn mask(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| match text.contains(secret) {
            true => text.replace(secret, MASK),
            false => text,
        })
    }

    /// The result without them, wherever in it they stand.
    pub(super) fn mask_result(&self, result: &mut v1::ToolResult) {
        if self.0.is_empty() {
            return;
        }
        self.mask_in_place(&mut result.error);
        result.output.iter_mut().for_each(|output| self.mask_struct(output));
        for part in &mut result.content {
            match &mut part.part {
                Some(Part::Text(text)) => self.mask_in_place(&mut text.text),
                Some(Part::File(file)) => {
                    self.mask_in_place(&mut file.name);
                    match &mut file.source {
                        Some(Source::Uri(uri)) => self.mask_in_place(uri),
                        Some(Source::Bytes(bytes)) => *bytes = self.mask_bytes(bytes).into(),
                        None => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn mask_in_place(&self, text: &mut String) {
        *text = self.mask(std::mem::take(text));
    }

    fn mask_struct(&self, data: &mut prost_types::Struct) {
        data.fields = std::mem::take(&mut data.fields)
            .into_iter()
            .map(|(name, mut value)| {
                self.mask_value(&mut value);
                (self.mask(name), value)
            })
            .collect();
    }

    fn mask_value(&self, value: &mut prost_types::Value) {
        match &mut value.kind {
            Some(Kind::StringValue(text)) => self.mask_in_place(text),
            Some(Kind::StructValue(data)) => self.mask_struct(data),
            Some(Kind::ListValue(list)) => list.values.iter_mut().for_each(|value| self.mask_value(value)),
            _ => {}
        }
    }

    fn mask_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.iter().fold(bytes.to_vec(), |bytes, secret| replace(&bytes, secret.as_bytes()))
    }
}

fn replace(bytes: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(secret) {
            out.extend_from_slice(MASK.as_bytes());
            at += secret.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::http::file;
    use super::super::json;
    use super::*;

    #[test]
    fn a_secret_is_masked_wherever_it_stands() {
        let secrets = Secrets::new(["s3cret-key".to_owned(), "s3cret-key-long".to_owned(), "short".to_owned()]);
        let given = |a: &str, b: &str| v1::ToolResult {
            error: a.to_owned(),
            output: json::to_struct(serde_json::json!({a: [{"x": b}], "n": 1}).as_object().expect("an object").clone()),
            content: vec![v1::Part::text(a), file("x", b.to_owned().into())],
            ..Default::default()
        };
        let mut result = given("a s3cret-key-long b", "\u{1}s3cret-key short");
        secrets.mask_result(&mut result);
        assert_eq!(result, given("a [secret] b", "\u{1}[secret] short"));
    }
}
