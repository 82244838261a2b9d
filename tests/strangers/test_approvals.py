"""Approvals over the wire: a harness of grpcio alone asks, a person decides, a tool that counts does it once."""

import base64
import collections
import hashlib
import hmac
import http.server
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import threading

import pytest

from conftest import SECONDS_MAX, cli

HERE = pathlib.Path(__file__).resolve().parent


class Counter(http.server.ThreadingHTTPServer):
    """A tool that does one thing once for a key, and counts."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.runs = collections.Counter()


class Answers(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        args = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.runs[self.headers["Idempotency-Key"]] += 1
        body = json.dumps({"paid": json.loads(args)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def counter():
    server = Counter()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def harness():
    """The plain harness in a process of its own; gives its address."""
    command = [sys.executable, str(HERE / "plain_harness.py"), "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().strip()
    process.kill()
    process.wait(SECONDS_MAX)


@pytest.fixture
def place(tmp_path, counter, harness):
    """What a host is started with: its folder, and its arguments."""
    config = tmp_path / "inspan.toml"
    tool = """
[[tools.http]]
name = "{name}"
url = "http://127.0.0.1:{port}/{name}"
replay = "keyed"
"""
    config.write_text("".join(tool.format(name=name, port=counter.server_address[1]) for name in ("pay", "look")))
    script = tmp_path / "script.yaml"
    script.write_text("turns:\n  - text: thanks\n")
    args = ("--config", str(config), "--model", "echo", "--model-script", str(script), "--harness", f"plain={harness}")
    data = tmp_path / "data"
    data.mkdir()
    return data, args


def records(host, uid):
    return [line.split()[1] for line in host.cli("replay", "--session", uid).stdout.splitlines()]


def parked(host):
    """A session whose turn waits for a person."""
    uid = host.cli("create", "--harness", "plain").stdout.strip()
    said = host.cli("exec", "--session", uid, "--input", "pay 5").stdout
    assert "EVENT_APPROVAL_REQUEST" in said
    session = json.loads(host.cli("get", "--session", uid, "--json").stdout)
    assert session["exec_state"] == "EXEC_AWAITING" and session["pending_approval"]["tool_call_id"] == "pay-1"
    return uid


def test_a_mediated_call_runs_once_and_replays(make_host, place, counter):
    """R-TOOL-3 over the wire: the call is on record before it runs, and a re-run runs nothing."""
    data, args = place
    host = make_host(*args, folder=data)
    uid = host.cli("create", "--harness", "plain").stdout.strip()
    host.cli("exec", "--session", uid, "--input", "look around")
    kinds = ["EXECUTION_START", "INPUT", "TOOL_CALL", "TOOL_RESULT", "MODEL_CALL", "OUTPUT", "END"]
    assert records(host, uid) == [f"EVENT_{kind}" for kind in kinds]
    assert list(counter.runs.values()) == [1]


@pytest.mark.parametrize("verb, runs", [("approve", 1), ("deny", 0)])
def test_a_decision_is_acted_upon_once(make_host, place, counter, verb, runs):
    """R-APPR-2, R-APPR-6, R-APPR-25, R-APPR-26: park over the wire, decide, go on."""
    data, args = place
    host = make_host(*args, folder=data)
    uid = parked(host)
    assert not counter.runs, "nothing runs before the decision"
    said = host.cli(verb, uid, "--reason", "because", "--actor", "ann").stdout
    assert said.startswith(f"session {uid} decision committed seq=6 approved={str(bool(runs)).lower()} compute=COMPUTE_LIVE")
    kinds = ["EXECUTION_START", "INPUT", "TOOL_CALL", "APPROVAL_REQUEST", "LIFECYCLE", "APPROVAL_RESULT", "TOOL_RESULT"]
    assert records(host, uid) == [f"EVENT_{kind}" for kind in [*kinds, "MODEL_CALL", "OUTPUT", "END", "LIFECYCLE"]]
    assert sum(counter.runs.values()) == runs
    # Nothing waits any more.
    again = host.cli(verb, uid, check=False)
    assert again.returncode == 1 and "Resume" in again.stderr


def test_a_turn_that_waits_survives_a_move_of_its_folder(make_host, place, counter, inspan, tmp_path):
    """A host is killed, its folder goes elsewhere, and another host decides there."""
    data, args = place
    host = make_host(*args, folder=data)
    uid = parked(host)
    host.kill()
    elsewhere = tmp_path / "elsewhere"
    shutil.move(data, elsewhere)
    host = make_host(*args, folder=elsewhere)
    answer = json.loads(host.cli("approve", "--session", uid, "--json").stdout)
    assert answer["session"]["execState"] == "EXEC_COMPLETED" and answer["decision"]["event"]["approvalResult"]["approved"]
    assert list(counter.runs.values()) == [1]
    assert host.stop() == 0
    verified = cli(inspan, "verify", "--journal", elsewhere / "journal.db")
    assert "damaged" not in verified.stdout


def test_a_turn_cannot_start_while_one_waits(make_host, place):
    """R-APPR-24: a new turn waits for the receipt; one without inputs goes on with the turn that waits."""
    data, args = place
    host = make_host(*args, folder=data)
    uid = parked(host)
    refused = host.cli("exec", "--session", uid, "--input", "look", check=False)
    assert refused.returncode == 1 and "waits on tool call pay-1" in refused.stderr


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes whatever it is told."""

    def do_POST(self):
        self.server.told.put((self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.told = queue.Queue()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_what_waits_is_told_listed_and_decided_as_shown(make_host, place, counter, hook, tmp_path):
    """Signature and digest are what Python's own hmac and hashlib compute, and a decision on anything else is refused."""
    data, args = place
    key = tmp_path / "key"
    key.write_text("whsec_" + base64.b64encode(bytes(range(32))).decode())
    with (tmp_path / "inspan.toml").open("a") as config:
        config.write(f'[webhook]\nurl = "http://127.0.0.1:{hook.server_address[1]}/"\nsecret_file = "{key}"\n')
    host = make_host(*args, folder=data)
    uid = parked(host)
    headers, body = hook.told.get(timeout=SECONDS_MAX)
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    tag = base64.b64encode(hmac.digest(bytes(range(32)), signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{tag}"
    [ask] = json.loads(host.cli("asks", "--json").stdout)["asks"]
    assert json.loads(body)["data"] == ask and ask["session"] == uid and ask["asked_by"] == "ASKED_BY_HARNESS"
    recorded = json.loads(host.cli("replay", "--session", uid, "--from", ask["call_seq"], "--json").stdout.splitlines()[0])
    canonical = json.dumps(recorded["event"]["tool"]["args"], sort_keys=True, separators=(",", ":"))
    assert ask["args_digest"] == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    other = host.cli("approve", uid, "--digest", "sha256:" + hashlib.sha256(b"{}").hexdigest(), check=False)
    assert other.returncode == 1 and "FailedPrecondition" in other.stderr and not counter.runs
    host.cli("approve", uid, "--digest", ask["args_digest"])
    assert list(counter.runs.values()) == [1] and host.cli("asks").stdout == ""
    assert hook.told.empty(), "told once"
