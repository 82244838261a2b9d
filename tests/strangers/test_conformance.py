"""The conformance kit on a harness of grpcio alone, and on a host that drives it."""

import json
import pathlib
import subprocess
import sys

import pytest

from conftest import SECONDS_MAX, cli

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture
def harness():
    """The plain harness in a process of its own; gives its address."""
    command = [sys.executable, str(HERE / "plain_harness.py"), "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().strip()
    process.kill()
    process.wait(SECONDS_MAX)


def judged(done):
    """What the kit found: the results by check, when no rule is broken."""
    report = json.loads(done.stdout)
    failed = [check for check in report["checks"] if check["result"] == "fail"]
    assert (done.returncode, report["verdict"], failed) == (0, "pass", []), failed
    return {check["check"]: check["result"] for check in report["checks"]}


def test_a_harness_without_our_code_keeps_the_rules(inspan, harness):
    """W-1 to W-10, the park exchange and the decided gate."""
    inputs = [word for text in ("hello", "look around", "pay 5") for word in ("--input", text)]
    expected = ["--expect-id", "plain", "--expect-tool", "--expect-gate"]
    results = judged(cli(inspan, "conformance", "harness", harness, *inputs, *expected, "--json", check=False))
    skipped = {check for check, result in results.items() if result == "skip"}
    assert skipped == {"replay-output", "replay-usage"}, "it says nothing of its own"


def test_a_host_keeps_the_rules_with_that_harness(make_host, inspan, harness, tmp_path):
    """R-START, R-HASH, R-CAS, R-REPLAY, R-RESUME, R-FORK, R-LIFE, R-LIST and R-APPR, as far as a client sees them."""
    script = tmp_path / "script.yaml"
    script.write_text("loop: true\nturns:\n  - text: thanks\n")
    host = make_host("--model", "echo", "--model-script", script, "--harness", f"plain={harness}")
    asked = ["--harness", "plain", "--gate-input", "pay 5"]
    results = judged(cli(inspan, "conformance", "host", host.address, *asked, "--json", check=False))
    assert set(results.values()) == {"pass"}
