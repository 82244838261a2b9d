//! What a caller is told when an operation is refused, in both spellings.

use axum::http::StatusCode;
use inspan_engine as engine;
use inspan_journal as journal;
use serde_json::json;
use tonic::Code;

/// A refusal: a gRPC code that says whether a retry can help, and a text that says what was wrong,
/// where, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The gRPC status code.
    pub code: Code,
    /// A lower-case fragment.
    pub message: String,
}

impl Fault {
    /// A fault with `code`.
    pub fn new(code: Code, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into() }
    }

    /// A wrong request: no retry helps.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(Code::InvalidArgument, message)
    }

    /// Something that is not there.
    pub fn not_found(message: impl Into<String>) -> Fault {
        Fault::new(Code::NotFound, message)
    }

    /// The same fault, saying which operation it comes from.
    #[must_use]
    pub(crate) fn during(mut self, operation: &str) -> Fault {
        self.message = format!("{operation}: {}", self.message);
        self
    }

    /// The HTTP status of the code, by the mapping that Google's APIs use.
    pub fn http_status(&self) -> StatusCode {
        http_status(self.code)
    }

    /// The body of an HTTP error: `{"code", "status", "message"}`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        json!({ "code": self.code as i32, "status": code_name(self.code), "message": self.message })
    }
}

/// The HTTP status of a gRPC code.
pub(crate) fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        // No standard status says that the caller went away; 499 is what proxies log.
        Code::Cancelled => StatusCode::from_u16(499).expect("499 is a valid status"),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// The name of a gRPC code as the protocol spells it.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

impl From<engine::Error> for Fault {
    fn from(error: engine::Error) -> Fault {
        Fault::new(Code::from_i32(error.code() as i32), error.to_string())
    }
}

impl From<journal::Error> for Fault {
    fn from(error: journal::Error) -> Fault {
        engine::Error::from(error).into()
    }
}

impl From<Fault> for tonic::Status {
    fn from(fault: Fault) -> tonic::Status {
        tonic::Status::new(fault.code, fault.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_codes_keep_their_numbers() {
        use engine::Code as E;
        for (ours, grpc) in [
            (E::Cancelled, Code::Cancelled),
            (E::InvalidArgument, Code::InvalidArgument),
            (E::DeadlineExceeded, Code::DeadlineExceeded),
            (E::NotFound, Code::NotFound),
            (E::AlreadyExists, Code::AlreadyExists),
            (E::ResourceExhausted, Code::ResourceExhausted),
            (E::FailedPrecondition, Code::FailedPrecondition),
            (E::Aborted, Code::Aborted),
            (E::OutOfRange, Code::OutOfRange),
            (E::Unimplemented, Code::Unimplemented),
            (E::Internal, Code::Internal),
            (E::Unavailable, Code::Unavailable),
        ] {
            assert_eq!(Code::from_i32(ours as i32), grpc);
        }
    }
}
