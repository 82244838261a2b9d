//! What both ends of a link check of a tool's answer: neither trusts the other with what the record must prove.

use inspan_wire::v1::{self, tool_result::Code};

/// Whether a result looks like a receipt of the host's: it carries a place in the journal, or a denial. A harness
/// may not report one (W-8, R-OUT-3), and an ordinary call is not answered with one.
pub fn is_host_owned(result: &v1::ToolResult) -> bool {
    result.approval_request_seq != 0 || result.approval_decision_seq != 0 || result.code() == Code::ApprovalDenied
}

/// Checks the two halves of a decided gate's answer against each other and against the call.
///
/// # Errors
/// What does not fit, as the rest of a sentence that begins with who said it.
pub fn check_decided(
    call_id: &str,
    decision: &v1::ApprovalResult,
    receipt: &v1::ToolResult,
) -> Result<(), &'static str> {
    check_decision(call_id, decision)?;
    if receipt.id != call_id {
        return Err("the receipt is of another call");
    }
    if receipt.approval_request_seq != decision.request_seq {
        return Err("the receipt names another request than the decision");
    }
    if receipt.approval_decision_seq <= 0 {
        return Err("the receipt names no decision");
    }
    // An unknown code is none of these: it must not read as success.
    match (decision.approved, Code::try_from(receipt.code), receipt.is_error) {
        (true, Ok(Code::Unspecified), false)
        | (true, Ok(Code::ExecutorError), true)
        | (false, Ok(Code::ApprovalDenied), true) => Ok(()),
        _ => Err("the receipt's status contradicts the decision"),
    }
}

/// Checks a decision alone: the half that comes first.
///
/// # Errors
/// As [`check_decided`].
pub fn check_decision(call_id: &str, decision: &v1::ApprovalResult) -> Result<(), &'static str> {
    if decision.tool_call_id != call_id {
        return Err("the decision is on another call");
    }
    if decision.request_seq <= 0 {
        return Err("the decision names no request");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decided gate, step 4: every status against both decisions; an unknown code fits neither.
    #[test]
    fn a_receipt_must_fit_its_decision() {
        let statuses = [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true), (3, false), (3, true)];
        let fitting = |approved: bool| -> Vec<(i32, bool)> {
            let decision =
                v1::ApprovalResult { tool_call_id: "c".into(), approved, request_seq: 4, ..Default::default() };
            let fits = |(code, is_error): &(i32, bool)| {
                let receipt = v1::ToolResult {
                    id: "c".into(),
                    code: *code,
                    is_error: *is_error,
                    approval_request_seq: 4,
                    approval_decision_seq: 5,
                    ..Default::default()
                };
                check_decided("c", &decision, &receipt).is_ok()
            };
            statuses.into_iter().filter(fits).collect()
        };
        assert_eq!(fitting(true), [(0, false), (2, true)]);
        assert_eq!(fitting(false), [(1, true)]);
    }

    #[test]
    fn a_receipt_must_name_what_it_follows() {
        let decision =
            v1::ApprovalResult { tool_call_id: "c".into(), approved: true, request_seq: 4, ..Default::default() };
        let receipt = |id: &str, request, decided| v1::ToolResult {
            id: id.into(),
            approval_request_seq: request,
            approval_decision_seq: decided,
            ..Default::default()
        };
        assert_eq!(check_decided("c", &decision, &receipt("c", 4, 5)), Ok(()));
        for wrong in
            [receipt("x", 4, 5), receipt("c", 0, 5), receipt("c", 3, 5), receipt("c", 4, 0), receipt("c", 4, -1)]
        {
            assert!(check_decided("c", &decision, &wrong).is_err(), "{wrong:?}");
        }
        assert!(check_decided("x", &decision, &receipt("x", 4, 5)).is_err());
        let unasked = v1::ApprovalResult { request_seq: 0, ..decision };
        assert!(check_decision("c", &unasked).is_err());
    }

    /// W-8: what a harness may not report.
    #[test]
    fn host_owned_fields_are_seen() {
        let own =
            v1::ToolResult { id: "c".into(), is_error: true, code: Code::ExecutorError.into(), ..Default::default() };
        assert!(!is_host_owned(&own));
        assert!(is_host_owned(&v1::ToolResult { approval_request_seq: 1, ..own.clone() }));
        assert!(is_host_owned(&v1::ToolResult { approval_decision_seq: -1, ..own.clone() }));
        assert!(is_host_owned(&v1::ToolResult { code: Code::ApprovalDenied.into(), ..own }));
    }
}
