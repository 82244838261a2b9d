//! Bodies in, text out: what the unit tests of this crate share.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use inspan_engine::{Completion, ModelError};
use inspan_wire::v1;
use inspan_wire::v1::part::Part;
use inspan_wire::v1::reasoning_part::Opaque;

use crate::completion::{AnthropicDraft, Draft, OpenAiDraft};
use crate::config::Api;
use crate::{json, stream as streams};

/// The idle bound of these tests; time is paused where it matters.
pub(crate) const IDLE: Duration = Duration::from_secs(120);

/// What a body does, chunk by chunk.
pub(crate) type Chunk = Result<Bytes, std::io::Error>;

/// A connection that breaks off.
pub(crate) fn reset() -> Chunk {
    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
}

/// Whole chunks of a body.
pub(crate) fn chunks(parts: &[&[u8]]) -> Vec<Chunk> {
    parts.iter().map(|p| Ok(Bytes::copy_from_slice(p))).collect()
}

/// Reads a streamed body; `hang` keeps it open after its last chunk. Gives the completion as text, with the delivered
/// text checked against it.
pub(crate) async fn read(api: Api, body: Vec<Chunk>, hang: bool) -> Result<String, ModelError> {
    match api {
        Api::OpenAi => read_into(OpenAiDraft::new("m"), body, hang).await,
        Api::Anthropic => read_into(AnthropicDraft::new("m"), body, hang).await,
    }
}

async fn read_into(mut draft: impl Draft, body: Vec<Chunk>, hang: bool) -> Result<String, ModelError> {
    use futures_util::StreamExt;
    let frames = stream::iter(body).map(|chunk| chunk.map(Frame::data));
    let open = if hang { stream::pending().left_stream() } else { stream::empty().right_stream() };
    let delivered = Mutex::new(String::new());
    let on_text = |text: &str| {
        assert!(!text.is_empty(), "an empty chunk was delivered");
        delivered.lock().expect("no test panicked here").push_str(text);
    };
    streams::read_events(StreamBody::new(frames.chain(open)), &mut draft, IDLE, &on_text).await?;
    let completion = draft.finish()?;
    assert_eq!(
        completion.message.concat_text(),
        delivered.into_inner().expect("as above"),
        "delivered and recorded text"
    );
    Ok(show(&completion))
}

/// Reads a whole body.
pub(crate) fn whole(api: Api, body: &str) -> Result<String, ModelError> {
    fn into(mut draft: impl Draft, body: &str) -> Result<String, ModelError> {
        draft.whole(body.as_bytes(), &|_| {})?;
        draft.finish().map(|c| show(&c))
    }
    match api {
        Api::OpenAi => into(OpenAiDraft::new("m"), body),
        Api::Anthropic => into(AnthropicDraft::new("m"), body),
    }
}

/// A completion on one line: `text "hi" | call c1 f {"a":1} | usage m 3 4 0`.
pub(crate) fn show(completion: &Completion) -> String {
    assert_eq!(completion.message.role, "assistant");
    let mut out: Vec<String> = completion.message.parts.iter().enumerate().map(|(n, p)| show_part(n, p)).collect();
    if let Some(u) = &completion.usage {
        out.push(format!("usage {} {} {} {}", u.model, u.input_tokens, u.output_tokens, u.reasoning_tokens));
    }
    out.join(" | ")
}

fn show_part(position: usize, part: &v1::Part) -> String {
    match part.part.as_ref().expect("no part is empty") {
        Part::Text(t) => format!("text {:?}", t.text),
        Part::ToolCall(c) => {
            assert_eq!((c.mediation, c.idempotency_key.as_str()), (0, ""), "these are the host's to set");
            let args = json::from_struct(c.args.as_ref().expect("a call has arguments")).expect("finite");
            format!("call {} {} {args}", c.id, c.tool)
        }
        Part::Reasoning(r) => {
            assert_eq!(usize::try_from(r.ordinal), Ok(position));
            let opaque = match &r.opaque {
                Some(Opaque::OpaqueBytes(b)) => String::from_utf8_lossy(b).into_owned(),
                other => format!("{other:?}"),
            };
            let summary: Vec<String> = r.summary.iter().map(|p| show_part(0, p)).collect();
            format!("reasoning {} {} item={} {opaque} {summary:?}", r.provider, r.model_id, r.item_id)
        }
        other => panic!("no completion has {other:?}"),
    }
}
