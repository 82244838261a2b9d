//! Errors as HTTP spells them: a status and `{"code", "status", "message"}`.

use axum::Json;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tonic::Code;

use super::BODY_BYTES_MAX;
use super::routes::IMPORT_TYPES;
use crate::fault::Fault;

/// A refused request. The status follows from the fault's code, unless HTTP has a better word.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    fault: Fault,
}

impl Refusal {
    fn with(status: StatusCode, code: Code, message: impl Into<String>) -> Refusal {
        Refusal { status, fault: Fault::new(code, message) }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Refusal {
        Fault::invalid(message).into()
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Refusal {
        Fault::new(Code::PermissionDenied, message).into()
    }

    pub(super) fn no_route(path: &str) -> Refusal {
        Refusal::with(StatusCode::NOT_FOUND, Code::NotFound, format!("no route {path}: GET /v1/openapi.json lists all"))
    }

    pub(super) fn wrong_method(method: &Method, path: &str) -> Refusal {
        let message = format!("{path} has no method {method}: the allow header lists those it has");
        Refusal::with(StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented, message)
    }

    pub(super) fn too_large() -> Refusal {
        let message = format!("the body is larger than {BODY_BYTES_MAX} bytes");
        Refusal::with(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, message)
    }

    pub(super) fn not_a_file() -> Refusal {
        let message = format!("the body's content-type is none of {}", IMPORT_TYPES.join(", "));
        Refusal::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument, message)
    }

    pub(super) fn not_json() -> Refusal {
        let message = "the body's content-type is not application/json";
        Refusal::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument, message)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal { status: fault.http_status(), fault }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self.fault.to_json())).into_response()
    }
}
