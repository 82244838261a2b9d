"""Plain curl drives every HTTP route."""

import json
import subprocess

import pytest

from conftest import SECONDS_MAX


def curl(host, path, *args, body=None):
    """Status and body."""
    command = ["curl", "--silent", "--show-error", "--max-time", str(SECONDS_MAX), "--write-out", "\n%{http_code}", *args]
    if body is not None:
        command += ["--json", "@-"]
    body = "" if body is None else json.dumps(body)
    done = subprocess.run([*command, host.url + path], capture_output=True, text=True, input=body)
    assert done.returncode == 0, done.stderr
    text, _, status = done.stdout.rpartition("\n")
    return int(status), text


def get(host, path, *args, status=200):
    got, text = curl(host, path, *args)
    assert got == status, text
    return json.loads(text)


def post(host, path, body, *args, status=200):
    got, text = curl(host, path, *args, body=body)
    assert got == status, text
    return json.loads(text)


def events(text):
    """Server-sent events as (id, event, data)."""
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        found.append((int(fields["id"]) if "id" in fields else None, fields["event"], json.loads(fields["data"])))
    return found


def user(text):
    return {"role": "user", "parts": [{"text": {"text": text}}]}


def exec_turn(host, uid, text):
    status, answer = curl(host, f"/v1/sessions/{uid}/turns", body={"inputs": [user(text)]})
    assert status == 200, answer
    return events(answer)


@pytest.fixture
def uid(host):
    return post(host, "/v1/sessions", {"session": {"metadata": {"name": "by curl"}}})["metadata"]["uid"]


def test_the_host_describes_itself(host):
    assert get(host, "/healthz") == {"status": "SERVING"}
    assert get(host, "/v1/harnesses") == {"default": "echo", "harnesses": ["echo"]}
    document = get(host, "/v1/openapi.json")
    assert document["openapi"].startswith("3.") and "/v1/sessions/{uid}" in document["paths"]


def test_sessions_are_made_read_listed_and_deleted(host, uid):
    session = get(host, f"/v1/sessions/{uid}")
    assert session["metadata"]["name"] == "by curl" and session["metadata"]["project"] == "default"
    page = get(host, "/v1/sessions?page_size=1")
    assert [session["metadata"]["uid"] for session in page["sessions"]] == [uid], "newest first"
    status, _ = curl(host, f"/v1/sessions/{uid}", "--request", "DELETE")
    assert status == 200
    assert get(host, f"/v1/sessions/{uid}", status=404)["code"] == 5


def test_a_turn_is_a_stream_of_events(host, uid):
    turn = exec_turn(host, uid, "hello")
    names = [name for _, name, _ in turn if name != "delta"]
    assert names == ["session", *["record"] * 5, "end"]
    records = [(seq, data["event"]["kind"]) for seq, name, data in turn if name == "record"]
    assert records == list(
        enumerate(["EVENT_EXECUTION_START", "EVENT_INPUT", "EVENT_MODEL_CALL", "EVENT_OUTPUT", "EVENT_END"], 1)
    )


def test_a_turn_without_a_session_makes_one(host):
    status, text = curl(host, "/v1/turns", "--header", "accept: application/x-ndjson", body={"inputs": [user("hello")]})
    assert status == 200
    lines = [json.loads(line) for line in text.splitlines()]
    assert "session" in lines[0] and "end" in lines[-1]
    assert sum("record" in line for line in lines) == 5


def test_records_are_read_as_events_and_as_lines(host, uid):
    exec_turn(host, uid, "hello")
    status, text = curl(host, f"/v1/sessions/{uid}/records?from=2&to=4")
    assert status == 200 and [seq for seq, name, _ in events(text) if name == "record"] == [2, 3, 4]
    _, text = curl(host, f"/v1/sessions/{uid}/records", "--header", "accept: application/x-ndjson")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [int(line["record"]["seq"]) for line in lines if "record" in line] == [1, 2, 3, 4, 5]


def follow(host, path, until, *args, each=lambda seq: None):
    """The seqs that a stream gives, up to `until`; `each` sees every one as it comes."""
    command = ["curl", "--silent", "--no-buffer", "--max-time", str(SECONDS_MAX), *args, host.url + path]
    seqs = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as process:
        for line in process.stdout:
            if line.startswith("id: "):
                seqs.append(int(line[4:]))
                each(seqs[-1])
                if seqs[-1] >= until:
                    break
        process.kill()
    return seqs


def test_a_follower_sees_what_comes_and_reconnects_without_a_gap(host, uid):
    exec_turn(host, uid, "one")
    more = lambda seq: seq == 5 and exec_turn(host, uid, "two")
    assert follow(host, f"/v1/sessions/{uid}/records?follow=true", 8, each=more) == list(range(1, 9))
    last = ["--header", "last-event-id: 8"]
    assert follow(host, f"/v1/sessions/{uid}/records?follow=true", 10, *last) == [9, 10]
    assert follow(host, f"/v1/sessions/{uid}/watch?from=3", 10) == list(range(3, 11))
    assert follow(host, f"/v1/sessions/{uid}/watch?from=3", 10, *last) == [9, 10], "the cursor wins over the query"


def test_a_session_is_put_to_sleep_woken_forked_and_rerun(host, uid):
    exec_turn(host, uid, "hello")
    assert post(host, f"/v1/sessions/{uid}/suspend", {})["compute_state"] == "COMPUTE_COLD"
    assert post(host, f"/v1/sessions/{uid}/resume", {})["compute_state"] == "COMPUTE_LIVE"
    children = post(host, f"/v1/sessions/{uid}/fork", {"count": 2, "at_seq": "5"})["children"]
    assert [child["fork_seq"] for child in children] == ["5", "5"]
    again = post(host, f"/v1/sessions/{uid}/rerun", {})
    assert again["outputs"] == ["echo:hello"]


def test_what_a_model_was_asked_is_read(host, uid):
    import hashlib

    turn = exec_turn(host, uid, "hello")
    recorded = next(data for _, _, data in turn if data.get("event", {}).get("kind") == "EVENT_MODEL_CALL")
    status, text = curl(host, f"/v1/sessions/{uid}/records/3/request")
    assert status == 200
    assert hashlib.sha256(text.encode()).hexdigest() == recorded["event"]["model"]["input_hash"]


def test_a_large_file_is_kept_as_a_blob(host, uid):
    """Over 64 KiB a payload leaves the record; the record names it by digest and the route serves it."""
    import base64
    import hashlib

    content = bytes(range(256)) * 400
    file = {"file": {"mime": "application/octet-stream", "bytes": base64.b64encode(content).decode(), "name": "f"}}
    inputs = [{"role": "user", "parts": [file, {"text": {"text": "look"}}]}]
    status, answer = curl(host, f"/v1/sessions/{uid}/turns", body={"inputs": inputs})
    assert status == 200, answer
    digest = hashlib.sha256(content).hexdigest()
    recorded = next(data for _, name, data in events(answer) if name == "record" and data["event"]["kind"] == "EVENT_INPUT")
    assert digest in recorded["event"]["message"]["parts"][0]["file"]["digest"]
    done = subprocess.run(["curl", "--silent", f"{host.url}/v1/sessions/{uid}/blobs/{digest}"], capture_output=True, timeout=SECONDS_MAX)
    assert done.stdout == content


@pytest.mark.parametrize(
    ("path", "args", "body", "status"),
    [
        ("/v1/none", [], None, 404),
        ("/v1/sessions/sess-none", [], None, 404),
        ("/v1/sessions/sess-none/records", [], None, 404),
        ("/v1/sessions?page_size=many", [], None, 400),
        ("/v1/sessions?page_sise=1", [], None, 400),
        ("/v1/sessions", ["--request", "PUT"], None, 405),
        ("/v1/sessions", [], {"sesion": {}}, 400),
        ("/v1/sessions", ["--data", "{}"], None, 415),
        ("/v1/sessions", ["--header", "host: evil.example"], None, 403),
        ("/v1/sessions", ["--header", "origin: http://evil.example"], None, 403),
    ],
)
def test_refusals_say_what_was_wrong(host, path, args, body, status):
    got, text = curl(host, path, *args, body=body)
    assert got == status, text
    refusal = json.loads(text)
    assert refusal["message"] and refusal["code"] and refusal["status"]


def test_a_cancel_of_nothing_and_an_approval_of_nothing_are_refused(host, uid):
    exec_turn(host, uid, "hello")
    assert post(host, f"/v1/sessions/{uid}/cancel", {}, status=400)["status"] == "FAILED_PRECONDITION"
    approval = {"execution_id": "x", "tool_call_id": "c", "request_seq": "1", "approved": True}
    status, text = curl(host, f"/v1/sessions/{uid}/approve", body=approval)
    assert status in (400, 501), text
