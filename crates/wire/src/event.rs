//! Small helpers over the generated event types, so that callers do not spell out every level.

use crate::v1;

impl v1::Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> v1::Part {
        v1::Part { part: Some(v1::part::Part::Text(v1::TextPart { text: text.into() })) }
    }
}

impl v1::Message {
    /// A message of `role` with one text part.
    pub fn text(role: &str, text: impl Into<String>) -> v1::Message {
        v1::Message { role: role.to_owned(), parts: vec![v1::Part::text(text)] }
    }

    /// The texts of all text parts, concatenated (R-OUT-1).
    pub fn concat_text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|p| match &p.part {
                Some(v1::part::Part::Text(t)) => Some(t.text.as_str()),
                _ => None,
            })
            .collect()
    }
}

impl v1::Event {
    /// An event of `kind` in `execution_id` with `body`; everything else is unset (R-HASH-10).
    pub fn new(execution_id: &str, kind: v1::EventKind, body: v1::event::Body) -> v1::Event {
        v1::Event { execution_id: execution_id.to_owned(), kind: kind.into(), body: Some(body), ..Default::default() }
    }

    /// A lifecycle event, which belongs to no execution.
    pub fn lifecycle(lifecycle: v1::Lifecycle) -> v1::Event {
        v1::Event::new("", v1::EventKind::EventLifecycle, v1::event::Body::Lifecycle(lifecycle))
    }
}
