"""A host as users run it, and what every stranger needs to talk to it."""

import hashlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import threading

import grpc
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_MAX = 60


def pytest_addoption(parser):
    parser.addoption("--inspan", help="the binary under test; the newest build when left out")


@pytest.fixture(scope="session")
def inspan(request):
    named = request.config.getoption("--inspan")
    built = [ROOT / "target" / profile / "inspan" for profile in ("ci", "release", "debug")]
    found = [pathlib.Path(named)] if named else [path for path in built if path.exists()]
    assert found, "no binary to test: cargo build --release"
    return str(max(found, key=lambda path: path.stat().st_mtime).resolve())


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    """Messages and stubs of every service, made from the .proto files by their own compiler."""
    folder = tmp_path_factory.mktemp("stubs")
    protos = ROOT / "crates" / "wire" / "proto"
    names = sorted(str(path.relative_to(protos)) for path in protos.rglob("*.proto"))
    compiler = [sys.executable, "-m", "grpc_tools.protoc", f"-I{protos}"]
    subprocess.run([*compiler, f"--python_out={folder}", f"--grpc_python_out={folder}", *names], check=True)
    sys.path.insert(0, str(folder))
    return Stubs()


class Stubs:
    """The generated modules, under the names that the tests use."""

    def __init__(self):
        from agentsessions.v1 import common_pb2, session_pb2, session_pb2_grpc
        from inspan.v1 import inspan_pb2, inspan_pb2_grpc

        self.common, self.session, self.inspan = common_pb2, session_pb2, inspan_pb2
        self.Sessions, self.Journal = session_pb2_grpc.SessionsStub, inspan_pb2_grpc.JournalStub

    def user(self, text):
        part = self.common.Part(text=self.common.TextPart(text=text))
        return self.common.Message(role="user", parts=[part])


class Host:
    """`inspan serve` on a folder; it can be killed and started again on the same journal."""

    def __init__(self, inspan, folder, *args, env=None):
        self.inspan, self.folder, self.args, self.env = inspan, folder, args, env
        self.journal = folder / "journal.db"
        self.process = None
        self.log = []

    def start(self):
        command = [self.inspan, "serve", "--addr", "127.0.0.1:0", "--journal", str(self.journal), *self.args]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.env
        )
        self.address = None
        for line in self.process.stderr:
            self.log.append(line)
            if listening := re.search(r'msg="inspan listening".* addr=(\S+)', line):
                self.address = listening[1]
                break
        assert self.address, f"the host did not start: {''.join(self.log)}"
        threading.Thread(target=self.log.extend, args=(self.process.stderr,), daemon=True).start()
        self.channel = grpc.insecure_channel(self.address)
        return self

    @property
    def url(self):
        return f"http://{self.address}"

    def kill(self):
        """SIGKILL: no handler runs, nothing is flushed."""
        self.channel.close()
        self.process.kill()
        self.process.wait(SECONDS_MAX)

    def stop(self):
        """SIGTERM, and the exit code."""
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS_MAX)

    def cli(self, *args, check=True):
        """A verb of the command line, on this host's server."""
        return cli(self.inspan, args[0], "--server", self.address, *args[1:], check=check)


def cli(inspan, *args, check=True):
    done = subprocess.run([inspan, *map(str, args)], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    assert not check or done.returncode == 0, f"inspan {' '.join(map(str, args))}: {done.stderr}"
    return done


@pytest.fixture
def make_host(inspan, tmp_path):
    """Starts hosts that end with the test."""
    hosts = []

    def make(*args, folder=None, env=None):
        host = Host(inspan, folder or tmp_path, *args, env=env)
        hosts.append(host)
        return host.start()

    yield make
    for host in hosts:
        if host.process.poll() is None:
            host.kill()


@pytest.fixture(scope="module")
def host(inspan, tmp_path_factory):
    """One host with the echo harness for a whole file."""
    host = Host(inspan, tmp_path_factory.mktemp("host")).start()
    yield host
    assert host.stop() == 0, "".join(host.log)


def check_chain(records):
    """The hash chain of `inspan.v1.Record`s, as R-HASH-1 and R-HASH-8 say, with nothing but hashlib."""
    prev = ""
    for seq, record in enumerate(records, 1):
        assert (record.seq, record.prev_hash) == (seq, prev)
        text = '{"event":%s,"prev_hash":"%s","seq":"%d"}' % (record.canonical_event, prev, seq)
        prev = hashlib.sha256(text.encode()).hexdigest()
        assert record.content_hash == prev, f"record {seq} does not have the hash that it says"
        event = json.loads(record.canonical_event)
        assert json.dumps(event, sort_keys=True, ensure_ascii=False, separators=(",", ":")) == record.canonical_event
