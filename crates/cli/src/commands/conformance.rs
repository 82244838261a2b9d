//! `inspan conformance …`: the rules of the protocol against anyone's harness and anyone's host.

use std::time::Duration;

use inspan_conformance::{Address, Finding, Report, Unreachable, Verdict, harness, host};
use serde_json::json;

use crate::error::Error;
use crate::output::{Dress, Out, Paint};

/// The rules of agentsessions.v1 against anyone's harness and anyone's host
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    side: Side,
}

/// One side of the protocol each.
#[derive(Debug, clap::Subcommand)]
enum Side {
    Harness(HarnessArgs),
    Host(HostArgs),
}

/// Judge the harness at an address by the rules of Harness.Connect
///
/// Drives turns of it as a host does, with a model, tools and decisions of the kit's own, then gives it answers that no host
/// should give. Its tools are not run. A check that the harness never gave anything to judge for is skipped, with
/// the reason; ask for the inputs that make it call a tool or ask for an approval with --input. Ends with exit code 1 when a rule is
/// broken.
#[derive(Debug, clap::Args)]
struct HarnessArgs {
    /// The harness: HOST:PORT or unix:/path
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// Text of a turn; may be given more than once, for a turn each
    #[arg(long = "input", value_name = "TEXT", default_value = "hello")]
    inputs: Vec<String>,
    /// Configuration of every turn, as the harness takes it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    config: String,
    /// What the kit's model answers; asked with tools on offer, it calls each of them first
    #[arg(long, value_name = "TEXT")]
    answer: Option<String>,
    /// The id that the harness must say it has
    #[arg(long, value_name = "ID")]
    expect_id: Option<String>,
    /// Fail a harness that has no tool run
    #[arg(long)]
    expect_tool: bool,
    /// Fail a harness that never asks for an approval
    #[arg(long)]
    expect_gate: bool,
    /// How long to wait for anything, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
    /// Answer in JSON: one object
    #[arg(long)]
    json: bool,
}

/// Judge the host at an address by the rules of the Sessions service
///
/// Makes sessions in a project of its own, `conformance-…`, with the label `inspan-conformance`, has turns run there by the
/// host's harness and model, and judges what it is told. The sessions are left behind, and it is said where. Ends with exit
/// code 1 when a rule is broken.
#[derive(Debug, clap::Args)]
struct HostArgs {
    /// The host: HOST:PORT or unix:/path
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// Harness of the sessions; the host's default when left out
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    harness: String,
    /// Text of a turn that ends well
    #[arg(long, value_name = "TEXT", default_value = "hello")]
    input: String,
    /// Configuration of every turn, as the harness takes it
    #[arg(long, value_name = "TEXT", default_value = "{}")]
    config: String,
    /// Text of a turn that asks for an approval; the kit denies it, so that no tool is run
    #[arg(long, value_name = "TEXT")]
    gate_input: Option<String>,
    /// Harness of that turn; the one of --harness when left out
    #[arg(long, value_name = "NAME", requires = "gate_input")]
    gate_harness: Option<String>,
    /// How long to wait for anything, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
    /// Answer in JSON: one object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    match args.side {
        Side::Harness(args) => of_harness(args).await,
        Side::Host(args) => of_host(args).await,
    }
}

async fn of_harness(args: HarnessArgs) -> Result<(), Error> {
    let usual = harness::Options::default();
    let options = harness::Options {
        inputs: args.inputs,
        config: args.config.into_bytes(),
        answer: args.answer.unwrap_or(usual.answer),
        expect_id: args.expect_id,
        expect_tool: args.expect_tool,
        expect_gate: args.expect_gate,
        patience: Duration::from_secs(args.patience),
        ..harness::Options::default()
    };
    let again = format!("inspan conformance harness {} --json", args.address);
    let away = format!("inspan harness serve --addr {}", args.address);
    tell(harness::run(&args.address, &options).await, args.json, &again, &away)
}

async fn of_host(args: HostArgs) -> Result<(), Error> {
    let gate = args.gate_input.map(|input| (args.gate_harness.unwrap_or_else(|| args.harness.clone()), input));
    let patience = Duration::from_secs(args.patience);
    let (harness, input, config) = (args.harness, args.input, args.config.into_bytes());
    let options = host::Options { harness, input, config, gate, patience };
    let again = format!("inspan conformance host {} --json", args.address);
    let away = format!("inspan serve --addr {}", args.address);
    tell(host::run(&args.address, &options).await, args.json, &again, &away)
}

/// Shows a report and turns its verdict into the exit code.
fn tell(report: Result<Report, Unreachable>, json: bool, again: &str, away: &str) -> Result<(), Error> {
    let report = report.map_err(|e| Error::new(e.to_string(), away))?;
    let mut out = Out::stdout(json);
    show(&mut out, &report)?;
    if report.is_pass() {
        return Ok(());
    }
    let (_, failed, _) = report.counts();
    let text = match failed {
        0 => "nothing could be judged: every check was skipped".to_owned(),
        _ => format!("{failed} of {} checks failed: {}", report.findings.len(), failures(&report)),
    };
    Err(Error::new(text, again))
}

fn failures(report: &Report) -> String {
    let failed = report.findings.iter().filter(|finding| matches!(finding.verdict, Verdict::Failed(_)));
    failed.map(|finding| format!("{} {}", finding.check.rule, finding.check.name)).collect::<Vec<_>>().join(", ")
}

fn show(out: &mut Out, report: &Report) -> Result<(), Error> {
    match out.dress() {
        Dress::Json => return out.line(as_json(report)),
        Dress::Plain => {
            for finding in &report.findings {
                out.line(row(finding))?;
            }
        }
        dress @ Dress::Terminal { .. } => out.line(table(report, dress))?,
    }
    for note in &report.notes {
        out.line(note)?;
    }
    out.line(sum(report, out.dress()))
}

fn row(finding: &Finding) -> String {
    let Finding { check, verdict } = finding;
    format!("{}\t{}\tresult={}\tseen={}", check.rule, check.name, verdict.word(), one_line(verdict.text()))
}

fn table(report: &Report, dress: Dress) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(["RULE", "CHECK", "RESULT", "PROVES", "SEEN"]);
    for Finding { check, verdict } in &report.findings {
        let paint = match verdict {
            Verdict::Passed(_) => Paint::Good,
            Verdict::Failed(_) => Paint::Bad,
            Verdict::Skipped(_) => Paint::Dim,
        };
        table.add_row([
            check.rule.to_owned(),
            check.name.to_owned(),
            dress.paint(paint, verdict.word()),
            check.proves.to_owned(),
            dress.foreign(&one_line(verdict.text())),
        ]);
    }
    table.to_string()
}

/// `harness … passed=… failed=… skipped=…: it conforms`.
fn sum(report: &Report, dress: Dress) -> String {
    let (passed, failed, skipped) = report.counts();
    let verdict = if report.is_pass() {
        dress.paint(Paint::Good, "no rule is broken")
    } else {
        dress.paint(Paint::Bad, if failed == 0 { "nothing could be judged" } else { "rules are broken" })
    };
    format!("{} passed={passed} failed={failed} skipped={skipped}: {verdict}", dress.foreign(&report.subject))
}

fn as_json(report: &Report) -> serde_json::Value {
    let checks = report.findings.iter().map(|Finding { check, verdict }| {
        json!({
            "rule": check.rule,
            "check": check.name,
            "proves": check.proves,
            "result": verdict.word(),
            "seen": verdict.text(),
        })
    });
    let (passed, failed, skipped) = report.counts();
    json!({
        "subject": report.subject,
        "verdict": if report.is_pass() { "pass" } else { "fail" },
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
        "checks": checks.collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

/// What a peer says may have lines; a row has one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let finding = |n: usize, verdict| Finding { check: &harness::CHECKS[n], verdict };
        Report {
            subject: "harness h:1".to_owned(),
            findings: vec![
                finding(0, Verdict::Passed("id \"x\"".to_owned())),
                finding(5, Verdict::Failed("one\n\ttwo\u{1b}[2J".to_owned())),
            ],
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_row_is_one_line_and_a_table_obeys_nobody() {
        let report = report();
        assert_eq!(row(&report.findings[0]), "R-REMOTE-1\tdescribe\tresult=pass\tseen=id \"x\"");
        assert_eq!(row(&report.findings[1]), "W-1\tenvelope\tresult=fail\tseen=one two\u{1b}[2J");
        assert!(!table(&report, Dress::Terminal { colour: false }).contains('\u{1b}'));
        assert_eq!(sum(&report, Dress::Plain), "harness h:1 passed=1 failed=1 skipped=0: rules are broken");
        let json = as_json(&report);
        assert_eq!((&json["verdict"], &json["checks"][1]["rule"]), (&json!("fail"), &json!("W-1")));
    }
}
