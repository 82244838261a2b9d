//! Creating and listing.

use std::sync::Arc;

use inspan_journal::{Error, ListQuery, Session};

use super::{Bed, START_NS, new_session, state};

fn query(project: &str, limit: usize, after: Option<&Session>) -> ListQuery {
    ListQuery { project: project.to_owned(), limit, after: after.map(|s| (s.create_ns, s.uid.clone())) }
}

async fn all_pages(bed: &Bed, limit: usize) -> Vec<String> {
    let mut uids = Vec::new();
    let mut last: Option<Session> = None;
    loop {
        let page = bed.journal.list(query("p", limit, last.as_ref())).await.unwrap();
        assert!(page.sessions.len() == limit || !page.more, "only the last page is short");
        uids.extend(page.sessions.iter().map(|s| s.uid.to_string()));
        last = page.sessions.last().cloned();
        if !page.more {
            return uids;
        }
    }
}

/// R-LIST-1: by creation time descending, then by uid.
pub(crate) async fn sessions_are_listed_newest_first(bed: Bed) {
    for (uid, at) in [("b", 1), ("a", 1), ("c", 0), ("d", 2)] {
        bed.clock.set(START_NS + at);
        bed.create(uid).await;
        bed.clock.set(START_NS);
    }
    // The clock went backwards before `c`: it cannot be older than what was there.
    assert_eq!(all_pages(&bed, 10).await, ["d", "a", "b", "c"]);
    let page = bed.journal.list(query("p", 10, None)).await.unwrap();
    assert_eq!(page.sessions[0], bed.get("d").await, "a listing and a read agree");
}

/// R-LIST-1: exact match.
pub(crate) async fn a_listing_keeps_to_its_project(bed: Bed) {
    for (uid, project) in [("a", "p"), ("b", "pp"), ("c", ""), ("d", "P")] {
        bed.journal.create(new_session(uid, project)).await.unwrap();
    }
    for (project, expect) in [("p", vec!["a"]), ("", vec!["c"]), ("P", vec!["d"]), ("x", vec![])] {
        let page = bed.journal.list(query(project, 10, None)).await.unwrap();
        let uids: Vec<&str> = page.sessions.iter().map(|s| s.uid.as_str()).collect();
        assert_eq!(uids, expect, "project {project:?}");
        assert!(!page.more);
    }
}

/// R-LIST-1, R-LIST-2: keyset pages of every size give every session once.
pub(crate) async fn pages_have_no_gaps_or_duplicates(bed: Bed) {
    for n in 0..23 {
        bed.clock.set(START_NS + n / 4);
        bed.create(&format!("s{n:02}")).await;
    }
    let whole = all_pages(&bed, 500).await;
    assert_eq!(whole.len(), 23);
    for limit in 1..=24 {
        assert_eq!(all_pages(&bed, limit).await, whole, "pages of {limit}");
    }
    bed.journal.delete(&"s05".into()).await.unwrap();
    assert_eq!(all_pages(&bed, 3).await, whole.into_iter().filter(|uid| uid != "s05").collect::<Vec<_>>());
}

/// A session that was there when the first page was asked for is on exactly one page.
pub(crate) async fn pages_hold_while_others_create(bed: Bed) {
    for n in 0..40 {
        bed.create(&format!("old{n:02}")).await;
    }
    bed.clock.set(START_NS + 1);
    let bed = Arc::new(bed);
    let creators = (0..4).map(|creator| {
        let bed = Arc::clone(&bed);
        tokio::spawn(async move {
            for n in 0..25 {
                bed.create(&format!("new{creator}-{n:02}")).await;
            }
        })
    });
    let creators: Vec<_> = creators.collect();
    let mut listings = 0;
    while listings < 5 || creators.iter().any(|c| !c.is_finished()) {
        let uids = all_pages(&bed, 7).await;
        let old: Vec<&String> = uids.iter().filter(|uid| uid.starts_with("old")).collect();
        assert_eq!(old, (0..40).map(|n| format!("old{n:02}")).collect::<Vec<_>>().iter().collect::<Vec<_>>());
        let mut unique = uids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), uids.len(), "no duplicates");
        listings += 1;
    }
    for creator in creators {
        creator.await.unwrap();
    }
    assert_eq!(all_pages(&bed, 9).await.len(), 140);
}

pub(crate) async fn a_uid_is_taken_once(bed: Bed) {
    let bed = Arc::new(bed);
    let racers = (0..20).map(|_| {
        let bed = Arc::clone(&bed);
        tokio::spawn(async move { bed.journal.create(new_session("a", "p")).await })
    });
    let mut won = 0;
    for racer in racers.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(_) => won += 1,
            Err(e) => assert_eq!(e, Error::Exists("a".into())),
        }
    }
    assert_eq!(won, 1);
}

/// R-LIST-3, and what the creator said is kept (R-LIST-4).
pub(crate) async fn sessions_without_records_are_listed(bed: Bed) {
    let created = bed.create("a").await;
    assert_eq!(created.info, new_session("a", "p").info);
    assert_eq!((created.head.seq, created.fence, created.state.clone()), (0, 0, state(0)));
    let bed = bed.reopen();
    let page = bed.journal.list(query("p", 10, None)).await.unwrap();
    assert_eq!(page.sessions, [created]);
    assert_eq!(bed.journal.records(&"a".into(), 1, 9, 9).await.unwrap(), []);
    assert_eq!(bed.journal.uids(None, 10).await.unwrap(), ["a".into()]);
    assert_eq!(bed.journal.uids(Some("a".into()), 10).await.unwrap(), []);
}
