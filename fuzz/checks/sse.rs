//! Any bytes are framed the same however they are chunked, and events hold no more than came.

use inspan_models::stream::sse::{Decoder, Event, TooLong};

/// The first byte chooses the size of the chunks, the rest is the stream.
pub fn check(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let whole = decode(stream.chunks(stream.len().max(1)));
    assert_eq!(decode(stream.chunks(usize::from(*size) % 40 + 1)), whole, "chunks of another size");
    let Ok(events) = whole else { return };
    let held: usize = events.iter().map(|event| event.data.len()).sum();
    assert!(held <= stream.len(), "events hold {held} of {} bytes", stream.len());
}

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Event>, TooLong> {
    let (mut decoder, mut events) = (Decoder::new(), Vec::new());
    for chunk in chunks {
        decoder.push(chunk, &mut events)?;
    }
    events.extend(decoder.finish());
    Ok(events)
}
