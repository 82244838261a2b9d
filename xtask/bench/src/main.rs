//! Measures what inspan promises about speed.
//!
//! Each row is one promise: a figure, what it is measured beside in the same run, and the bar for their
//! ratio. Machines differ and this one may be busy, so no row knows a good number: the disk, the generic
//! path or a bare connection of the same minute says what is good. Figure and peer take turns, and the
//! ratio is the median of the rounds.

mod disk;
mod frame;
mod host;
mod lean;
mod machine;
mod rows;
mod stats;

use std::process::ExitCode;

use clap::Parser;
use frame::{Bench, Context, Row};

/// Measures what inspan promises about speed.
#[derive(Parser)]
struct Args {
    /// Measure only these (a part of the name is enough).
    #[arg(long = "row", value_name = "NAME")]
    rows: Vec<String>,
    /// Smaller sizes: to see that everything runs, not to judge by.
    #[arg(long)]
    quick: bool,
    /// Print the names and stop.
    #[arg(long)]
    list: bool,
    /// Forward one TCP connection to this address, as the peer of the streaming row.
    #[arg(long, hide = true, value_name = "ADDRESS")]
    tcp_hop: Option<std::net::SocketAddr>,
}

/// That of the product's binary, for what is measured in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(target) = args.tcp_hop {
        return done(rows::hop::forward(target));
    }
    let chosen: Vec<&Bench> = rows::ALL
        .iter()
        .filter(|bench| args.rows.is_empty() || args.rows.iter().any(|name| bench.name.contains(name.as_str())))
        .collect();
    if args.list {
        for bench in chosen {
            println!("{:<12} {}", bench.name, bench.what);
        }
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        eprintln!("inspan-bench: no row has {} in its name: see --list", args.rows.join(" or "));
        return ExitCode::FAILURE;
    }
    done(measure(&chosen, args.quick))
}

fn done(result: Result<(), frame::Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("inspan-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, prints the table, writes the file; fails when a bar does not hold.
fn measure(chosen: &[&Bench], quick: bool) -> Result<(), frame::Failure> {
    let context = Context::new(quick)?;
    println!("{}", machine::line(context.folder())?);
    let mut rows: Vec<Row> = Vec::new();
    for bench in chosen {
        eprintln!("measuring {}: {}", bench.name, bench.what);
        rows.extend((bench.run)(&context).map_err(|e| e.within(bench.name))?);
    }
    println!("\n{}", frame::table(&rows));
    frame::write_json(&rows)?;
    let below: Vec<&str> = rows.iter().filter(|row| !row.holds).map(|row| row.row.as_str()).collect();
    if below.is_empty() {
        println!("all {} rows hold their bars{}", rows.len(), if quick { " (quick sizes)" } else { "" });
        return Ok(());
    }
    Err(frame::Failure::new(format!("{} of {} rows miss their bar: {}", below.len(), rows.len(), below.join("; "))))
}
