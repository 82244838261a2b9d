//! Pages of a listing: sizes and tokens (R-LIST-1, R-LIST-2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use inspan_wire::SessionUid;

use crate::fault::Fault;

/// Sessions on a page when the caller does not say.
pub(crate) const SIZE_DEFAULT: usize = 50;
/// Sessions on a page at most.
pub(crate) const SIZE_MAX: usize = 500;

/// How many sessions the page has: zero or less is the default, too many are the most.
pub(crate) fn size(asked: i32) -> usize {
    match usize::try_from(asked) {
        Ok(0) | Err(_) => SIZE_DEFAULT,
        Ok(asked) => asked.min(SIZE_MAX),
    }
}

/// The token of the page behind a session: unpadded base64url of creation time, NUL, uid.
pub(crate) fn token(create_ns: i64, uid: &SessionUid) -> String {
    URL_SAFE_NO_PAD.encode(format!("{create_ns}\0{uid}"))
}

/// The session that a token stands behind; `None` for the first page.
///
/// # Errors
/// INVALID_ARGUMENT for a token that no page gave.
pub(crate) fn after(token: &str) -> Result<Option<(i64, SessionUid)>, Fault> {
    if token.is_empty() {
        return Ok(None);
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let parts = text.as_deref().and_then(|text| text.split_once('\0'));
    let place = parts.and_then(|(ns, uid)| Some((ns.parse().ok()?, SessionUid::from(uid))));
    match place {
        Some((ns, uid)) if !uid.as_str().is_empty() => Ok(Some((ns, uid))),
        _ => Err(Fault::invalid("page_token was not given by this host: start again without one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_session() {
        let uid = SessionUid::from("sess-0123456789abcdef01234567");
        let token = token(1_700_000_000_000_000_001, &uid);
        assert_eq!(token, "MTcwMDAwMDAwMDAwMDAwMDAwMQBzZXNzLTAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nw");
        assert_eq!(after(&token), Ok(Some((1_700_000_000_000_000_001, uid))));
        assert_eq!(after(""), Ok(None));
    }

    #[test]
    fn foreign_tokens_are_refused() {
        let encoded = |text: &[u8]| URL_SAFE_NO_PAD.encode(text);
        let foreign =
            ["=", "MTA=", "a b", &encoded(b"10"), &encoded(b"10\0"), &encoded(b"x\0sess"), &encoded(b"1\0\xff")];
        for token in foreign {
            assert!(after(token).is_err(), "{token:?}");
        }
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!([i32::MIN, -1, 0, 1, 500, 501, i32::MAX].map(size), [50, 50, 50, 1, 500, 500, 500]);
    }
}
