//! Forks copy nothing: 128 children of a long session.

use std::path::Path;
use std::time::Instant;

use inspan_wire::v1;

use crate::disk::Disk;
use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::host::{Host, create, grow, journal_file};
use crate::stats::{as_ms, median};

pub(crate) const BENCH: Bench =
    Bench { name: "forks", what: "128 forks of a session of 100,000 records: time and growth", run };

const CHILDREN: i32 = 128;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("forks")?;
    let mut disk = Disk::in_folder(&folder)?;
    let (mut forks, mut flushes, mut growth) = (Vec::new(), Vec::new(), Vec::new());
    context.block_on(async {
        let host = Host::start(context, &folder, &[]).await?;
        let mut client = host.sessions().await?;
        let session = create(&mut client, "").await?;
        grow(&mut client, &session, context.size(100_000, 5_000)).await?;
        for _ in 0..context.size(9, 2) {
            let before = used_bytes(&folder)?;
            let began = Instant::now();
            let request = v1::ForkRequest { session: session.clone(), count: CHILDREN, ..Default::default() };
            let children = client.fork(request).await?.into_inner().children;
            forks.push(as_ms(began.elapsed()));
            growth.push((used_bytes(&folder)? - before) / 1e3);
            if children.len() != 128 {
                return Err(Failure::new(format!("{} children instead of 128", children.len())));
            }
            let mut hundred = 0.0;
            for _ in 0..100 {
                hundred += disk.flush_ms()?;
            }
            flushes.push(hundred);
        }
        Ok::<(), Failure>(())
    })?;
    let time = "128 forks of a session of 100,000 records / 100 fdatasyncs";
    let room = "128 forks of a session of 100,000 records: growth of the store / 200 KB";
    Ok(vec![
        Row::limit(time, "ms", median(&forks), median(&flushes), Bar::AtMost(1.0)),
        Row::limit(room, "KB", median(&growth), 200.0, Bar::AtMost(1.0)),
    ])
}

/// Bytes of the pages in use, as a second reader sees them: file sizes move with checkpoints, this does not.
fn used_bytes(folder: &Path) -> Result<f64, Failure> {
    let store =
        rusqlite::Connection::open_with_flags(journal_file(folder), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let pragma = |name: &str| store.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok(((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?) as f64)
}
