//! Any bytes are an error or an event, and an event has one canonical form that reads as the same event.

use inspan_wire::{canon, input, normal, parse};

pub fn check(data: &[u8]) {
    let Ok(mut event) = parse::event(data) else { return };
    let canonical = canon::event(&event).expect("what was read can be written");
    assert_eq!(parse::event(&canonical).as_ref(), Ok(&event), "what was written is read as the same");
    assert_eq!(canon::message(&event).as_ref(), Ok(&canonical), "the generic path writes the same");
    if let Some(inspan_wire::v1::event::Body::Model(call)) = &event.body {
        // An unknown tool choice is an error, everything else has a text.
        let _ = input::text(call);
    }
    normal::event(&mut event);
    let canonical = canon::event(&event).expect("a normal event can be written");
    assert_eq!(parse::event(&canonical).as_ref(), Ok(&event));
}
