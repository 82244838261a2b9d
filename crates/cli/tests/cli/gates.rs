//! Gates of a harness that answers at an address: the park, the decision and the receipt cross the process boundary.

use inspan_harness::serve::{Listener, serve};
use inspan_testkit::harness::Moves;
use inspan_testkit::provider::{Answer, Provider};
use tokio::runtime::Runtime;

use crate::shell::Shell;

/// A host with one tool over HTTP, and a scripted harness of this process at a socket.
struct Stage {
    shell: Shell,
    tool: Provider,
    /// Serves the harness and the tool; both end with it.
    _runtime: Runtime,
}

fn stage(policy: &str) -> Stage {
    let runtime = Runtime::new().expect("a runtime");
    let tool = runtime.block_on(Provider::start());
    tool.always(Answer::json(200, r#"{"paid":true}"#));
    let mut shell = Shell::new();
    let config = format!("[[tools.http]]\nname = \"t\"\nurl = \"{}/t\"\nreplay = \"keyed\"\n{policy}", tool.url());
    std::fs::write(shell.file("inspan.toml"), config).expect("the configuration is written");
    std::fs::write(shell.file("s.yaml"), "turns: [{text: \"done\"}]\nloop: true\n").expect("the script is written");
    let address = format!("unix:{}", shell.file("h.sock").display()).parse().expect("an address");
    let listener = runtime.block_on(Listener::bind(&address)).expect("the socket is free");
    runtime.spawn(serve(Moves::default(), listener, std::future::pending()));
    shell.serve(&["--model-script", "s.yaml", "--harness", "mine=unix:h.sock"]);
    Stage { shell, tool, _runtime: runtime }
}

impl Stage {
    /// Plays a script in a new session until it waits for a decision.
    fn parks(&mut self, script: &str) {
        let uid = self.shell.stdout("inspan create --server ADDR --harness mine").trim().to_owned();
        self.shell.named(uid.as_bytes());
        self.shell.stdout(&format!("inspan exec --server ADDR --session sess-A --input \"{script}\""));
        assert_eq!(
            self.shell.stdout("inspan get --server ADDR --session sess-A --json").matches("EXEC_AWAITING").count(),
            1
        );
    }

    /// The kinds of the session's records.
    fn kinds(&mut self) -> String {
        let records = self.shell.stdout("inspan replay --server ADDR --session sess-A");
        let kinds: Vec<&str> = records.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        kinds.join(" ").replace("EVENT_", "")
    }
}

/// R-APPR-6, R-APPR-25: a gated call parks the turn over the wire, and its receipt reaches the harness when the decision is there.
#[test]
fn an_approved_gate_goes_on_in_the_other_process() {
    let mut stage = stage("");
    stage.parks("gate c k; result; model bye");
    let parked = "EXECUTION_START INPUT TOOL_CALL APPROVAL_REQUEST LIFECYCLE";
    assert_eq!((stage.kinds(), stage.tool.count()), (parked.to_owned(), 0));
    stage.shell.stdout("inspan approve --server ADDR --session sess-A");
    let rest = "APPROVAL_RESULT TOOL_RESULT OUTPUT MODEL_CALL OUTPUT END LIFECYCLE";
    assert_eq!((stage.kinds(), stage.tool.count()), (format!("{parked} {rest}"), 1));
    let replay = stage.shell.stdout("inspan replay --server ADDR --session sess-A");
    assert!(replay.contains("assistant: c ok"), "{replay}");
    let rerun = stage.shell.stdout("inspan rerun --server ADDR --session sess-A");
    assert!(rerun.contains("executions=1"), "decision and receipt are served to the harness again: {rerun}");
    assert_eq!(stage.tool.count(), 1);
}

/// R-APPR-26: a denial is an answer, and the tool is never asked.
#[test]
fn a_denied_gate_goes_on_in_the_other_process() {
    let mut stage = stage("");
    stage.parks("gate c k; model bye");
    stage.shell.stdout("inspan deny --server ADDR --session sess-A --reason no");
    let kinds = stage.kinds();
    assert!(kinds.ends_with("APPROVAL_RESULT TOOL_RESULT MODEL_CALL OUTPUT END LIFECYCLE"), "{kinds}");
    assert_eq!(stage.tool.count(), 0);
}

/// The host's policy asks about an ordinary call: the stream ends without a park frame, and the call is answered like any other when
/// the turn is driven again (W-8).
#[test]
fn a_call_that_the_policy_asks_about_waits_in_the_other_process() {
    let mut stage = stage("[[policy]]\nname = \"money\"\naction = \"ask\"\ntool = \"t\"\n");
    stage.parks("tool c k; result; model bye");
    assert_eq!(stage.tool.count(), 0);
    stage.shell.stdout("inspan approve --server ADDR --session sess-A");
    let replay = stage.shell.stdout("inspan replay --server ADDR --session sess-A");
    assert!(replay.contains("assistant: c ok") && replay.contains("EVENT_END"), "{replay}");
    assert_eq!(stage.tool.count(), 1);
}

/// What waits is listed with what is needed to decide on it; a decision names what was shown, and one on anything else is refused.
#[test]
fn what_waits_is_listed_and_decided_by_its_digest() {
    let mut stage = stage("[[policy]]\nname = \"money\"\naction = \"ask\"\ntool = \"t\"\n");
    stage.shell.check("$ inspan asks --server ADDR\n! nothing waits for a person\n! try: inspan list --server ADDR\n");
    stage.shell.check("$ inspan asks --server ADDR --json\n{}\n");
    let uid = stage.shell.stdout("inspan create --server ADDR --harness mine").trim().to_owned();
    stage.shell.named(uid.as_bytes());
    let script = r#"'tool c k {"to": "ann"}; result; model bye'"#;
    stage.shell.stdout(&format!("inspan exec --server ADDR --session sess-A --input {script}"));
    let row = stage.shell.stdout("inspan asks --server ADDR");
    let digest = inspan_wire::Digest::of(br#"{"to":"ann"}"#);
    for part in [
        "\ttool=t\tcall=c\trequest_seq=4\tasked_by=policy\trule=money\tsince=",
        &format!("\tdigest=sha256:{digest}\targs={{\"to\":\"ann\"}}\n"),
    ] {
        assert!(row.contains(part), "{part:?} in {row:?}");
    }
    assert_eq!(stage.shell.stdout("inspan asks --server ADDR --project default"), row);
    assert_eq!(stage.shell.stdout("inspan asks --server ADDR --project other"), "");
    let all = stage.shell.stdout("inspan asks --server ADDR --json --page-size 1");
    assert!(all.contains(r#""asked_by":"ASKED_BY_POLICY""#) && all.contains(r#""rule":"money""#), "{all}");
    let other =
        format!("inspan approve --server ADDR --session sess-A --digest sha256:{}", inspan_wire::Digest::of(b"{}"));
    let refused = stage.shell.run(&other);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1)
            && text.contains("code = FailedPrecondition")
            && text.contains(&digest.to_string()),
        "{text}"
    );
    assert_eq!(stage.tool.count(), 0);
    let decided = stage
        .shell
        .stdout(&format!("inspan approve --server ADDR --session sess-A --digest sha256:{digest} --actor ann"));
    assert!(
        decided.contains("decision committed seq=6 approved=true")
            && decided.ends_with(&format!(" digest=sha256:{digest}\n")),
        "{decided}"
    );
    assert_eq!((stage.tool.count(), stage.shell.stdout("inspan asks --server ADDR").as_str()), (1, ""));
}
