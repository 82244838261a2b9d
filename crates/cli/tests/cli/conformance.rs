//! `inspan conformance`, as it is typed.

use inspan_harness::reference::Echo;
use inspan_harness::serve::{Listener, serve};
use tokio::runtime::Runtime;

use crate::shell::Shell;

/// The exit code and stderr of a command line.
fn refused(shell: &mut Shell, line: &str) -> (Option<i32>, String) {
    let done = shell.run(line);
    (done.status.code(), String::from_utf8(done.stderr).expect("text"))
}

/// One line for each check, what was left behind, and the verdict; `--json` is one object.
#[test]
fn a_host_is_judged() {
    let mut shell = Shell::new();
    shell.serve(&[]);
    let told = shell.stdout("inspan conformance host ADDR");
    assert!(told.contains("R-HASH-1\thashes\tresult=pass\tseen=5 hashes made again\n"), "{told}");
    assert!(
        told.contains("R-APPR-2\tgate-parks\tresult=skip\tseen=no turn that asks for an approval was given\n"),
        "{told}"
    );
    assert!(told.contains(" sessions are left in project conformance-"), "{told}");
    assert!(told.trim_end().ends_with("failed=0 skipped=8: no rule is broken"), "{told}");
    let report: serde_json::Value =
        serde_json::from_str(&shell.stdout("inspan conformance host ADDR --json")).expect("one object");
    assert_eq!((&report["verdict"], &report["failed"]), (&"pass".into(), &0.into()));
}

/// A verdict is an exit code, and what was expected of a harness counts.
#[test]
fn a_harness_is_judged() {
    let runtime = Runtime::new().expect("a runtime");
    let mut shell = Shell::new();
    let address = format!("unix:{}", shell.file("h.sock").display()).parse().expect("an address");
    let listener = runtime.block_on(Listener::bind(&address)).expect("the socket is free");
    runtime.spawn(serve(Echo, listener, std::future::pending()));
    let told = shell.stdout("inspan conformance harness unix:h.sock --expect-id echo");
    assert!(told.contains("W-5\tend-once\tresult=pass\t"), "{told}");
    assert!(told.contains("W-PARK\tpark\tresult=skip\tseen=no gated call was made\n"), "{told}");
    let (code, said) = refused(&mut shell, "inspan conformance harness unix:h.sock --expect-id chat");
    assert_eq!(code, Some(1));
    let error = "inspan: 1 of 40 checks failed: R-CAP-3 describe-id\n\
                 try: inspan conformance harness unix:h.sock --json";
    assert!(said.contains(error), "{said}");
}

/// Nobody at the address is no verdict, and a command line that makes no sense is another exit code.
#[test]
fn nobody_is_no_verdict() {
    let mut shell = Shell::new();
    let (code, said) = refused(&mut shell, "inspan conformance harness unix:none.sock");
    assert!(code == Some(1) && said.contains("no harness answers at unix:none.sock"), "{said}");
    let (code, said) = refused(&mut shell, "inspan conformance host unix:none.sock");
    assert!(code == Some(1) && said.contains("no host answers at unix:none.sock"), "{said}");
    let (code, said) = refused(&mut shell, "inspan conformance harness http://x:1");
    assert!(code == Some(2) && said.contains("no address of a harness"), "{said}");
}
