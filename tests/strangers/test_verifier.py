"""tools/verify.py checks what the command line exports: a record needs no code of ours to be checked."""

import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT, SECONDS_MAX, cli

VERIFIER = ROOT / "tools" / "verify.py"


def verify(*files):
    command = [sys.executable, "-I", "-S", str(VERIFIER), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def exported(host, tmp_path_factory):
    """A session of three turns, and a fork of it with one more, exported by the command line."""
    uid = json.loads(host.cli("create", "--json").stdout)["metadata"]["uid"]
    for text in ("one", "zwei – \U0001f402", "a \"quote\" and a \\"):
        host.cli("exec", "--session", uid, "--input", text)
    forked = json.loads(host.cli("fork", "--session", uid, "--at", "7", "--json").stdout)
    child = forked["children"][0]["metadata"]["uid"]
    host.cli("exec", "--session", child, "--input", "elsewhere")
    folder = tmp_path_factory.mktemp("exports")
    files = {}
    for name, session in (("parent", uid), ("child", child)):
        files[name] = folder / f"{name}.export"
        host.cli("export", "--session", session, "--out", str(files[name]))
    return files


@pytest.mark.parametrize("name", ["parent", "child"])
def test_an_export_is_verified_by_both(inspan, exported, name):
    """R-HASH-9, by two programs that share nothing."""
    done = verify(exported[name])
    assert done.returncode == 0, done.stdout + done.stderr
    assert cli(inspan, "verify", exported[name]).returncode == 0


@pytest.mark.parametrize("name", ["parent", "child"])
def test_a_changed_letter_is_found_by_both(inspan, exported, tmp_path, name):
    data = exported[name].read_bytes()
    assert data.count(b"echo:one") >= 1, "an export is text that a stranger can read"
    changed = tmp_path / "changed.export"
    changed.write_bytes(data.replace(b"echo:one", b"echo:One", 1))
    ours = cli(inspan, "verify", changed, check=False)
    theirs = verify(changed)
    assert theirs.returncode != 0 and ours.returncode != 0
    assert re.search(r"\b4\b", theirs.stdout + theirs.stderr), "the record is named"


def test_a_missing_line_in_the_middle_is_found(exported, tmp_path):
    lines = exported["parent"].read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b"EVENT_OUTPUT" in line)
    changed = tmp_path / "gap.export"
    changed.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
    assert verify(changed).returncode != 0


def test_the_verifier_is_short_and_needs_the_standard_library_only():
    text = VERIFIER.read_text()
    assert len(text.splitlines()) <= 120
    imported = re.findall(r"^\s*(?:import|from)\s+([\w., ]+?)(?:\s+import\b.*)?$", text, re.MULTILINE)
    modules = {name.strip().split(".")[0] for line in imported for name in line.split(",")}
    assert modules <= sys.stdlib_module_names, modules
