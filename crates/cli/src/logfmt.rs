//! Logs on stderr, one `key=value` line for each event.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Sends the logs of this process to stderr. `filter` is a directive such as `info` or
/// `inspan_host=debug`.
///
/// # Errors
/// A directive that does not parse.
pub(crate) fn init(filter: &str) -> Result<(), String> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).map_err(|e| e.to_string())?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).event_format(Logfmt).init();
    Ok(())
}

struct Logfmt;

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let now = prost_types::Timestamp::from(SystemTime::now());
        let now = prost_types::Timestamp { nanos: now.nanos / 1_000_000 * 1_000_000, ..now };
        let mut fields = Fields::default();
        event.record(&mut fields);
        write!(out, "time={now} level={} msg={}{}", event.metadata().level(), quoted(&fields.message), fields.rest)?;
        writeln!(out)
    }
}

/// The message apart from the other fields, which keep their order.
#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn put(&mut self, field: &Field, value: String) {
        if field.name() == "message" {
            self.message = value;
        } else {
            write!(self.rest, " {}={}", field.name(), quoted(&value)).expect("writing to a string cannot fail");
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, format!("{value:.3}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

/// A value as logfmt has it: bare when it is one plain word, else in quotes.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    let mut out = String::from('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn values_are_quoted_when_a_reader_would_stumble() {
        let cases = [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("a=b", "\"a=b\""),
            ("say \"hi\"\n", r#""say \"hi\"\n""#),
            ("[echo]", "[echo]"),
        ];
        for (value, want) in cases {
            assert_eq!(quoted(value), want);
        }
    }
}
