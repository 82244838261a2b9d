//! A provider over HTTP: request, post, read, completion.

use async_trait::async_trait;
use hyper::Response;
use hyper::body::Incoming;
use inspan_engine::{Completion, Model, ModelError};
use inspan_wire::v1;

use crate::completion::{AnthropicDraft, Draft, OnText, OpenAiDraft};
use crate::config::{Api, BuildError, Provider, Timeouts};
use crate::http::{Post, media_type};
use crate::{request, stream};

/// A provider that speaks one of the two APIs.
pub(crate) struct Remote {
    post: Post,
    api: Api,
    model: String,
    stream: bool,
    max_tokens: u32,
    timeouts: Timeouts,
}

impl Remote {
    pub(crate) fn new(provider: Provider) -> Result<Remote, BuildError> {
        if provider.model.is_empty() {
            return Err(BuildError::NoModel);
        }
        Ok(Remote {
            post: Post::new(&provider)?,
            api: provider.api,
            model: provider.model,
            stream: provider.stream,
            max_tokens: provider.max_tokens,
            timeouts: provider.timeouts,
        })
    }

    /// Reads the answer in the form in which it came, whatever was asked for: some servers ignore
    /// `stream`.
    async fn read(
        &self,
        answer: Response<Incoming>,
        mut draft: impl Draft,
        on_text: OnText<'_>,
    ) -> Result<Completion, ModelError> {
        let streamed = match media_type(answer.headers()).as_str() {
            "text/event-stream" => true,
            "application/json" => false,
            _ => self.stream,
        };
        // A provider that does not stream delivers no text: there is no delta to close.
        let quiet: OnText<'_> = &|_| {};
        let on_text = if self.stream { on_text } else { quiet };
        if streamed {
            stream::read_events(answer.into_body(), &mut draft, self.timeouts.idle, on_text).await?;
        } else {
            let body = stream::read_whole(answer.into_body(), self.timeouts.idle).await?;
            draft.whole(&body, on_text)?;
        }
        draft.finish()
    }
}

#[async_trait]
impl Model for Remote {
    async fn call(&self, request: &v1::ModelCall, on_text: OnText<'_>) -> Result<Completion, ModelError> {
        let model = request::model(request, &self.model);
        let body = match self.api {
            Api::OpenAi => request::openai::body(request, model, self.stream)?,
            Api::Anthropic => request::anthropic::body(request, model, self.stream, self.max_tokens)?,
        };
        let answer = self.post.send(body.into()).await?;
        let completion = match self.api {
            Api::OpenAi => self.read(answer, OpenAiDraft::new(model), on_text).await,
            Api::Anthropic => self.read(answer, AnthropicDraft::new(model), on_text).await,
        };
        completion.map_err(|e| self.post.scrub(e))
    }

    fn streams(&self) -> bool {
        self.stream
    }
}
