//! A decision in the words of either package.

use crate::{inspan_v1, v1};

/// What `agentsessions.v1` has words for: everything but the digest of the arguments.
impl From<inspan_v1::DecideRequest> for v1::ApproveRequest {
    fn from(request: inspan_v1::DecideRequest) -> v1::ApproveRequest {
        v1::ApproveRequest {
            session: request.session,
            execution_id: request.execution_id,
            tool_call_id: request.tool_call_id,
            request_seq: request.request_seq,
            approved: request.approved,
            reason: request.reason,
            identity: request.identity,
        }
    }
}
