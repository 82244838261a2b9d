//! A conversation: every earlier input and output, then the new inputs, to one model.

use async_trait::async_trait;
use inspan_wire::v1;

use crate::{Failure, Harness, ModelRequest, Sink, Start};

/// Sends the whole recorded conversation on every turn; it has no tools and no window policy.
#[derive(Debug, Clone)]
pub struct Chat {
    model: String,
}

impl Chat {
    /// A chat that asks for `model`.
    pub fn new(model: impl Into<String>) -> Chat {
        Chat { model: model.into() }
    }
}

#[async_trait]
impl Harness for Chat {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        Ok(v1::HarnessDescriptor {
            id: "chat".to_owned(),
            version: "1".to_owned(),
            models: vec![self.model.clone()],
            capabilities: Some(v1::Capabilities {
                resumability: v1::Resumability::StatelessReplay.into(),
                fork_safe: true,
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        let mut messages = Vec::new();
        if let Some(prompt) = system_prompt(&start.config)? {
            messages.push(v1::Message::text("system", prompt));
        }
        let mut history = start.history.reader();
        loop {
            let page = history.next_page().await?;
            if page.is_empty() {
                break;
            }
            messages.extend(page.iter().filter_map(|event| conversation_message(event)).cloned());
        }
        messages.extend(start.inputs);
        sink.model(ModelRequest { model: self.model.clone(), messages, ..Default::default() }).await?;
        Ok(())
    }
}

fn conversation_message(event: &v1::Event) -> Option<&v1::Message> {
    match (event.kind(), &event.body) {
        (v1::EventKind::EventInput | v1::EventKind::EventOutput, Some(v1::event::Body::Message(m))) => Some(m),
        _ => None,
    }
}

/// Reads `{"system_prompt": "…"}`. The texts are fixed: a config may hold what must not be repeated.
fn system_prompt(config: &[u8]) -> Result<Option<String>, Failure> {
    if config.is_empty() {
        return Ok(None);
    }
    let value: serde_json::Value =
        serde_json::from_slice(config).map_err(|_| Failure::Failed("chat config is not one JSON value".to_owned()))?;
    let serde_json::Value::Object(object) = value else {
        return Err(Failure::Failed("chat config is not a JSON object".to_owned()));
    };
    match object.get("system_prompt") {
        None => Ok(None),
        Some(serde_json::Value::String(s)) if s.is_empty() => Ok(None),
        Some(serde_json::Value::String(s)) => Ok(Some(s.clone())),
        Some(_) => Err(Failure::Failed("chat config: system_prompt is not a string".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::system_prompt;

    #[test]
    fn config_is_read_as_the_contract_says() {
        let none: [&[u8]; 5] = [b"", b"{}", br#"{"system_prompt":""}"#, br#"{"other":1}"#, br#"{"System_Prompt":"x"}"#];
        for config in none {
            assert_eq!(system_prompt(config), Ok(None));
        }
        assert_eq!(system_prompt(b"{\"system_prompt\":\" a\\n\"}"), Ok(Some(" a\n".to_owned())));
        let bad: [&[u8]; 6] = [b"{", b"{} x", b"null", b"[]", br#"{"system_prompt":null}"#, br#"{"system_prompt":7}"#];
        for config in bad {
            assert!(system_prompt(config).is_err(), "{}", String::from_utf8_lossy(config));
        }
    }
}
