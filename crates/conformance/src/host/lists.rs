//! Lists.

use inspan_wire::time;
use inspan_wire::v1;
use tonic::Code;

use super::client::{ensure, refused, uid, wrong};
use super::{Bench, Found};
use crate::Verdict;

/// Pages that are asked for: a token that leads nowhere is not followed for ever.
const PAGES_MAX: usize = 1_000;

pub(super) async fn judge(bench: &Bench<'_>, found: &mut Found) {
    let fresh = bench.create("fresh").await;
    let listed = pages(bench, 500).await;
    found.push(("list-order", Verdict::of(order(bench, &listed))));
    found.push(("list-pages", Verdict::of(same_in_pages(bench, &listed).await)));
    let bad = v1::ListSessionsRequest { project: bench.project.clone(), page_token: "%no token%".into(), page_size: 1 };
    let token = refused("a token of nobody", bench.client.list(bad).await, &[Code::InvalidArgument]);
    found.push(("list-token", Verdict::of(token)));
    found.push((
        "list-fresh",
        Verdict::of(wrong("CreateSession", fresh).and_then(|fresh| {
            let is_there = listed.as_ref().is_ok_and(|all| all.iter().any(|s| uid(s) == uid(&fresh)));
            ensure(is_there, || "it is not in the list".to_owned()).map(|()| uid(&fresh).to_owned())
        })),
    ));
}

/// Every session of the project, in pages of this size.
async fn pages(bench: &Bench<'_>, page_size: i32) -> Result<Vec<v1::Session>, String> {
    let (mut all, mut page_token) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let request = v1::ListSessionsRequest { project: bench.project.clone(), page_size, page_token };
        let page = wrong("ListSessions", bench.client.list(request).await)?;
        let most = usize::try_from(page_size).unwrap_or(usize::MAX);
        ensure(page.sessions.len() <= most, || format!("a page of {page_size} has {}", page.sessions.len()))?;
        all.extend(page.sessions);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(all);
        }
    }
    Err(format!("{PAGES_MAX} pages of {page_size} did not end"))
}

fn order(bench: &Bench<'_>, listed: &Result<Vec<v1::Session>, String>) -> Result<String, String> {
    let listed = listed.as_ref().map_err(Clone::clone)?;
    let mut made = bench.made.lock().expect("no code panics while it holds this lock").clone();
    let mut seen: Vec<String> = listed.iter().map(|session| uid(session).to_owned()).collect();
    let key = |session: &v1::Session| {
        let created = session.metadata.as_ref().and_then(|m| m.create_time.as_ref()).map_or(0, time::to_ns);
        (std::cmp::Reverse(created), uid(session).to_owned())
    };
    ensure(listed.is_sorted_by_key(key), || "the sessions are not newest first".to_owned())?;
    made.sort();
    seen.sort();
    ensure(made == seen, || format!("{} sessions are listed and {} were made", seen.len(), made.len()))?;
    Ok(format!("{} sessions", seen.len()))
}

async fn same_in_pages(bench: &Bench<'_>, listed: &Result<Vec<v1::Session>, String>) -> Result<String, String> {
    let uids = |all: &[v1::Session]| all.iter().map(|session| uid(session).to_owned()).collect::<Vec<_>>();
    let whole = uids(listed.as_ref().map_err(Clone::clone)?);
    for page_size in [1, 3] {
        let paged = uids(&pages(bench, page_size).await?);
        ensure(paged == whole, || {
            format!("pages of {page_size} give {} sessions, one page gives {}", paged.len(), whole.len())
        })?;
    }
    Ok("pages of 1 and 3".to_owned())
}
