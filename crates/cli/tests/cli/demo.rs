//! The demo, end to end.

use crate::shell::Shell;

#[test]
fn the_demo_loses_nothing_and_repeats_one_call_once() {
    let mut shell = Shell::new();
    let json = shell.stdout("inspan demo --dir demo --json");
    let facts: serde_json::Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!(facts["shown_before_kill"], 8, "{facts}");
    assert_eq!(facts["kept_after_kill"], 8, "{facts}");
    assert_eq!(facts["state_after_kill"], "EXEC_FAILED", "{facts}");
    assert_eq!(facts["model_calls"], serde_json::json!({"1": 1, "2": 2, "3": 1}), "{facts}");
    assert_eq!(facts["model_calls_of_rerun"], 0, "{facts}");
    assert_eq!(facts["rerun_executions"], 2, "{facts}");
    assert_eq!(facts["verified_records"], 11, "{facts}");
    assert_eq!(facts["verify_fault"], "", "{facts}");
    let kinds: Vec<_> = facts["kinds"].as_array().expect("kinds").iter().filter_map(|k| k.as_str()).collect();
    assert_eq!(kinds.iter().filter(|k| **k == "EVENT_MODEL_CALL").count(), 2, "{facts}");
    assert_eq!(kinds.last(), Some(&"LIFECYCLE_RESUME"), "{facts}");

    // What it leaves is a journal like any other.
    let session = facts["session"].as_str().expect("a uid");
    let list = shell.stdout("inspan list --journal demo/agentsessions.db");
    assert_eq!(list.lines().count(), 2, "{list}");
    let replay = shell.stdout(&format!("inspan replay --journal demo/agentsessions.db --session {session}"));
    assert_eq!(replay.lines().count(), 11, "{replay}");
    shell.stdout("inspan verify --journal demo/agentsessions.db");
}

#[test]
fn the_demo_tells_its_story_in_a_screenful() {
    let mut shell = Shell::new();
    let story = shell.stdout("inspan demo --dir demo");
    for part in
        ["kill -9", "8 of 8 records", "8 MODEL_CALL - x kill -9", "'-> 9 OUTPUT - 10 END - 11 RESUME", "Try next"]
    {
        assert!(story.contains(part), "{part}: {story}");
    }
    assert!(story.lines().count() <= 40, "{story}");
    shell.check(
        "
$ inspan demo --dir demo
! inspan: making the folder demo failed: File exists (os error 17)
! try: inspan demo --dir ./inspan-demo-2
? 1
",
    );
}
