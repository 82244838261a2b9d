//! Registered harnesses.

use bytes::Bytes;
use inspan_journal::{NewRegistration, Registered, Registration, RegistrationQuery, Retired};
use inspan_wire::Digest;

use super::{Bed, START_NS, together};

const SPEC: &str = r#"{"remote":{"address":"127.0.0.1:9000"}}"#;
const OTHER: &str = r#"{"remote":{"address":"127.0.0.1:9001"}}"#;

fn new(name: &str, spec: &str) -> NewRegistration {
    let uid = format!("uid of {name} and {spec}");
    NewRegistration { name: name.to_owned(), uid, spec: Bytes::copy_from_slice(spec.as_bytes()) }
}

fn query(after: &str, limit: usize, include_retired: bool) -> RegistrationQuery {
    RegistrationQuery { after: after.to_owned(), limit, include_retired }
}

async fn names(bed: &Bed, query: RegistrationQuery) -> Vec<String> {
    bed.journal.registrations(query).await.unwrap().into_iter().map(|there| there.name).collect()
}

/// R-REG-1: the bytes are kept as they came; the same again changes nothing, others are turned away.
pub(crate) async fn a_name_holds_one_spec_for_ever(bed: Bed) {
    let (made, outcome) = bed.journal.register(new("mine", SPEC)).await.unwrap();
    let expected = Registration {
        name: "mine".to_owned(),
        uid: new("mine", SPEC).uid,
        spec: Bytes::from_static(SPEC.as_bytes()),
        digest: Digest::of(SPEC.as_bytes()),
        create_ns: START_NS,
        update_ns: START_NS,
        retired: None,
    };
    assert_eq!((&made, outcome), (&expected, Registered::Created));
    bed.clock.set(START_NS + 5);
    let again = NewRegistration { uid: "another uid".to_owned(), ..new("mine", SPEC) };
    assert_eq!(bed.journal.register(again).await.unwrap(), (made.clone(), Registered::Unchanged));
    assert_eq!(bed.journal.register(new("mine", OTHER)).await.unwrap(), (made.clone(), Registered::OtherSpec));
    assert_eq!(bed.journal.registration("mine").await.unwrap(), Some(made));
    assert_eq!(bed.journal.registration("Mine").await.unwrap(), None, "names are told apart by their bytes");
}

/// R-REG-3: retiring twice is retiring once. R-REG-1: the same spec again brings it back, with its uid and its birthday.
pub(crate) async fn a_retired_registration_keeps_its_first_reason(bed: Bed) {
    let (made, _) = bed.journal.register(new("mine", SPEC)).await.unwrap();
    bed.clock.set(START_NS + 1);
    let retired = bed.journal.retire("mine", "too old").await.unwrap().unwrap();
    let mark = Some(Retired { at_ns: START_NS + 1, reason: "too old".to_owned() });
    assert_eq!(retired, Registration { update_ns: START_NS + 1, retired: mark, ..made.clone() });
    bed.clock.set(START_NS + 2);
    assert_eq!(bed.journal.retire("mine", "another reason").await.unwrap(), Some(retired.clone()));
    assert_eq!(bed.journal.register(new("mine", OTHER)).await.unwrap(), (retired, Registered::OtherSpec));
    let back = bed.journal.register(new("mine", SPEC)).await.unwrap();
    assert_eq!(back, (Registration { update_ns: START_NS + 2, ..made }, Registered::Reactivated));
    bed.clock.set(START_NS + 3);
    let again = bed.journal.retire("mine", "").await.unwrap().unwrap();
    assert_eq!(again.retired, Some(Retired { at_ns: START_NS + 3, reason: String::new() }));
    assert_eq!(bed.journal.retire("yours", "").await.unwrap(), None);
}

/// R-REG-9: by name, each once, whatever the size of a page; retired ones when they are asked for.
pub(crate) async fn registrations_are_paged_by_name(bed: Bed) {
    assert_eq!(names(&bed, query("", 10, true)).await, [""; 0]);
    for name in ["b", "a-2", "c", "a", "a0", "d"] {
        bed.journal.register(new(name, SPEC)).await.unwrap();
    }
    bed.journal.retire("b", "").await.unwrap();
    assert_eq!(names(&bed, query("", 10, false)).await, ["a", "a-2", "a0", "c", "d"]);
    for limit in 1..8 {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let page = names(&bed, query(seen.last().map_or("", String::as_str), limit, true)).await;
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen, ["a", "a-2", "a0", "b", "c", "d"], "pages of {limit}");
    }
    assert_eq!(names(&bed, query("a1", 2, false)).await, ["c", "d"], "the name before need not be there");
}

pub(crate) async fn a_registration_outlives_its_store(bed: Bed) {
    bed.journal.register(new("mine", SPEC)).await.unwrap();
    bed.journal.register(new("yours", OTHER)).await.unwrap();
    bed.journal.retire("yours", "gone").await.unwrap();
    let before = bed.journal.registrations(query("", 9, true)).await.unwrap();
    let bed = bed.reopen();
    assert_eq!(bed.journal.registrations(query("", 9, true)).await.unwrap(), before);
}

pub(crate) async fn one_of_many_specs_wins_a_name(bed: Bed) {
    let specs: Vec<String> = (0..20).map(|n| format!("{{\"descriptor_id\":\"{n}\"}}")).collect();
    let outcomes = together(specs.iter().map(|spec| bed.journal.register(new("mine", spec)))).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    let won: Vec<_> = outcomes.iter().filter(|(_, outcome)| *outcome == Registered::Created).collect();
    assert_eq!(won.len(), 1);
    assert!(outcomes.iter().all(|(there, _)| *there == won[0].0), "everybody sees the winner");
    assert_eq!(outcomes.iter().filter(|(_, outcome)| *outcome == Registered::OtherSpec).count(), 19);
}
