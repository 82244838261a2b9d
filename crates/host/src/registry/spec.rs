//! What may be registered, and under which names (R-REG-2).

use bytes::Bytes;
use inspan_journal::Registration;
use inspan_wire::v1::{self, harness_spec::Placement};
use inspan_wire::{Digest, canon, json};

use crate::catalog::HarnessAddress;

/// Bytes of a spec's canonical form.
const SPEC_BYTES_MAX: usize = 4096;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 63;

/// Refuses a name that is no RFC 1123 label.
///
/// # Errors
/// What a name must be.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_label {
        return Ok(());
    }
    Err(format!("name {name:?} is no label: write 1 to {NAME_BYTES_MAX} of a-z, 0-9 and -, with no - at either end"))
}

/// A spec that may be registered.
#[derive(Debug)]
pub(super) struct Spec {
    /// As it was given.
    pub(super) message: v1::HarnessSpec,
    /// What is stored and digested.
    pub(super) canonical: Bytes,
    /// Where the harness is.
    pub(super) place: Place,
}

/// Where a registered harness is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// At an address.
    Remote(HarnessAddress),
    /// On a substrate, by space and template.
    Substrate(String, String),
}

impl Spec {
    /// Checks a spec.
    ///
    /// # Errors
    /// What is wrong with it, by field.
    pub(super) fn new(message: v1::HarnessSpec) -> Result<Spec, String> {
        let place = place(&message)?;
        let resumability = message.capabilities.as_ref().map_or(0, |capabilities| capabilities.resumability);
        match v1::Resumability::try_from(resumability) {
            Ok(v1::Resumability::StatelessReplay | v1::Resumability::RequiresMemorySnapshot) => {}
            Ok(v1::Resumability::Unspecified) => {
                return Err("spec.capabilities.resumability is missing: say RESUMABILITY_STATELESS_REPLAY or \
                            RESUMABILITY_REQUIRES_MEMORY_SNAPSHOT"
                    .to_owned());
            }
            Err(_) => {
                return Err(format!("spec.capabilities.resumability is {resumability}, which this host does not know"));
            }
        }
        let canonical = canon::message(&message).map_err(|e| format!("spec: {e}"))?;
        if canonical.len() > SPEC_BYTES_MAX {
            let bytes = canonical.len();
            return Err(format!("spec has {bytes} bytes in canonical form, and {SPEC_BYTES_MAX} is the most"));
        }
        Ok(Spec { message, canonical: canonical.into(), place })
    }

    /// Reads a stored spec, which a later version may have written.
    ///
    /// # Errors
    /// Why this host cannot read it.
    pub(super) fn stored(row: &Registration) -> Result<Spec, String> {
        if Digest::of(&row.spec) != row.digest {
            return Err("its stored spec is damaged: restore a backup, or register it under another name".to_owned());
        }
        let unread =
            |why: String| format!("this host cannot read its stored spec ({why}): use the version that registered it");
        let message = json::from_slice(&row.spec).map_err(|e| unread(e.to_string()))?;
        let spec = Spec::new(message).map_err(unread)?;
        if spec.canonical != row.spec {
            return Err(unread("it means more than this host understands of it".to_owned()));
        }
        Ok(spec)
    }
}

fn place(spec: &v1::HarnessSpec) -> Result<Place, String> {
    match &spec.placement {
        None => Err("spec has no placement: give remote or substrate".to_owned()),
        Some(Placement::Remote(remote)) if remote.address.is_empty() => {
            Err("spec.remote.address is missing: write HOST:PORT or unix:/path".to_owned())
        }
        Some(Placement::Remote(remote)) => {
            remote.address.parse().map(Place::Remote).map_err(|e| format!("spec.remote.address: {e}"))
        }
        Some(Placement::Substrate(at)) if at.atespace.is_empty() || at.template.is_empty() => {
            Err("spec.substrate has no atespace or no template: it needs both".to_owned())
        }
        Some(Placement::Substrate(at)) => Ok(Place::Substrate(at.atespace.clone(), at.template.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"remote":{"address":"127.0.0.1:9000"},"capabilities":{"resumability":1}}"#;

    fn check(json: &str) -> Result<Spec, String> {
        Spec::new(json::from_slice(json.as_bytes()).expect("the test writes a spec"))
    }

    fn row(spec: &[u8]) -> Registration {
        Registration {
            name: "mine".to_owned(),
            uid: "harness-1".to_owned(),
            spec: Bytes::copy_from_slice(spec),
            digest: Digest::of(spec),
            create_ns: 0,
            update_ns: 0,
            retired: None,
        }
    }

    /// R-REG-2: an RFC 1123 label.
    #[test]
    fn names_are_labels() {
        for good in ["a", "0", "a-b", "a--b", "9lives", &"x".repeat(63)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "-", "-a", "a-", "A", "a.b", "a_b", "a b", "é", "a\n", &"x".repeat(64)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    /// R-REG-2: one placement, whole; a resumability; a bounded size.
    #[test]
    fn a_spec_says_what_a_host_needs_to_know() {
        assert_eq!(
            check(GOOD).expect("it is whole").place,
            Place::Remote("127.0.0.1:9000".parse().expect("an address"))
        );
        let substrate = r#"{"substrate":{"atespace":"a","template":"t"},"capabilities":{"resumability":2}}"#;
        assert_eq!(check(substrate).expect("it is whole").place, Place::Substrate("a".to_owned(), "t".to_owned()));
        for (json, why) in [
            (r#"{"capabilities":{"resumability":1}}"#, "no placement"),
            (r#"{"remote":{},"capabilities":{"resumability":1}}"#, "address is missing"),
            (r#"{"remote":{"address":"nowhere"},"capabilities":{"resumability":1}}"#, "no port"),
            (r#"{"remote":{"address":"http://h:1"},"capabilities":{"resumability":1}}"#, "no such scheme"),
            (r#"{"substrate":{"atespace":"a"},"capabilities":{"resumability":1}}"#, "needs both"),
            (r#"{"substrate":{"template":"t"},"capabilities":{"resumability":1}}"#, "needs both"),
            (r#"{"remote":{"address":"h:1"}}"#, "resumability is missing"),
            (r#"{"remote":{"address":"h:1"},"capabilities":{"streaming":true}}"#, "resumability is missing"),
            (r#"{"remote":{"address":"h:1"},"capabilities":{"resumability":3}}"#, "resumability is 3"),
        ] {
            let refused = check(json).expect_err(json);
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        let long = |n: usize| GOOD.replacen('{', &format!("{{\"descriptor_id\":\"{}\",", "x".repeat(n)), 1);
        let room = SPEC_BYTES_MAX - check(&long(1)).expect("it is short").canonical.len() + 1;
        assert_eq!(check(&long(room)).expect("it just fits").canonical.len(), SPEC_BYTES_MAX);
        let refused = check(&long(room + 1)).expect_err("it is one byte too long");
        assert!(refused.contains("4097 bytes"), "{refused}");
    }

    /// R-REG-7: what cannot be read says why, and which version can.
    #[test]
    fn a_stored_spec_is_read_or_told_apart() {
        let canonical = check(GOOD).expect("it is whole").canonical;
        assert_eq!(Spec::stored(&row(&canonical)).expect("it is ours").canonical, canonical);
        let with = |more: &str| String::from_utf8(canonical.to_vec()).expect("text").replacen('{', more, 1);
        for (stored, why) in [
            (with("{\"colour\":\"red\","), "colour"),
            (with("{\"descriptor_id\":\"\","), "more than this host understands"),
            (r#"{"capabilities":{"resumability":"RESUMABILITY_BY_MAGIC"}}"#.to_owned(), "RESUMABILITY_BY_MAGIC"),
            (r#"{"capabilities":{"resumability":7},"remote":{"address":"h:1"}}"#.to_owned(), "does not know"),
            ("{".to_owned(), "cannot read"),
            ("{}".to_owned(), "no placement"),
        ] {
            let refused = Spec::stored(&row(stored.as_bytes())).expect_err(&stored);
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        let damaged = Registration { digest: Digest::of(b"what was registered"), ..row(&canonical) };
        assert!(Spec::stored(&damaged).expect_err("it is not what was digested").contains("damaged"));
    }
}
