"""Addresses, sockets and the end of a server."""

import asyncio
import os
import pathlib
import signal
import socket
import stat
import sys

import grpc.aio
import pytest
from scripted import Agent, Turn, caught, serving

from inspan import Server, Sink, Start, v1
from inspan.server import check_loopback, socket_path

SERVED = """
import asyncio, sys, inspan

class Slow(inspan.Harness):
    def describe(self):
        return inspan.Descriptor(id="slow")

    async def run(self, start, sink):
        await sink.output("begun")
        await sink.model([])

inspan.serve(Slow(), sys.argv[1])
"""


async def nothing(start: Start, sink: Sink) -> None:
    """A run that does nothing."""


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("unix:/run/h.sock", "/run/h.sock"),
        ("unix:///run/h.sock", "/run/h.sock"),
        ("unix:h.sock", "h.sock"),
        ("unix://h.sock", "h.sock"),
        ("127.0.0.1:0", None),
        ("[::1]:8090", None),
        ("localhost:8090", None),
    ],
)
def test_addresses_are_read(address: str, path: str | None) -> None:
    assert socket_path(address) == path


@pytest.mark.parametrize(
    "address",
    [
        "",
        "80",
        "host",
        ":80",
        "host:",
        "host:x",
        "host:-1",
        "host:65536",
        "http://x:1",
        "unix:",
        "unix://",
        "unix:///.",
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="unix:///"):
        Server(Agent(nothing), address)


@pytest.mark.parametrize("address", ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "example.com:80"])
def test_an_address_that_others_can_reach_is_refused_unless_it_is_meant(address: str) -> None:
    with pytest.raises(ValueError, match="allow_remote"):
        Server(Agent(nothing), address)
    Server(Agent(nothing), address, allow_remote=True)
    for near in ("127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"):
        check_loopback(near)


async def test_a_taken_port_is_refused() -> None:
    async with Server(Agent(nothing), "127.0.0.1:0") as first:
        error = await caught(Server(Agent(nothing), first.address).start())
    assert isinstance(error, OSError)
    assert first.address in str(error)


async def test_a_served_socket_is_refused_and_goes_with_its_server(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "h.sock"
    async with Server(Agent(nothing), f"unix:{path}"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, "only this user can connect"
        error = await caught(Server(Agent(nothing), f"unix:{path}").start())
        assert isinstance(error, OSError)
        assert "served by another" in str(error)
        assert path.exists(), "the refused server did not remove the other's socket"
    assert not path.exists()
    async with Server(Agent(nothing), f"unix:{path}"):
        assert path.exists()


def left_behind(path: pathlib.Path) -> str:
    """A socket with nobody behind it; gives what its lock would say."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    status = path.lstat()
    return f"{status.st_dev} {status.st_ino}\n"


async def test_a_socket_of_a_server_that_crashed_is_taken_over(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "h.sock"
    (tmp_path / "h.sock.lock").write_text(left_behind(path))
    async with serving(nothing, f"unix:{path}") as channel:
        one = Turn(channel)
        await one.start()
        await one.completed()


async def test_what_no_server_of_this_lock_left_is_not_touched(tmp_path: pathlib.Path) -> None:
    path, lock = tmp_path / "h.sock", tmp_path / "h.sock.lock"
    noted = left_behind(path)
    for text in ("", "x", f"{noted.split()[0]} 1\n"):
        lock.write_text(text)
        assert "by hand" in str(await caught(Server(Agent(nothing), f"unix:{path}").start())), text
    path.unlink()
    path.write_text("a file")
    assert isinstance(await caught(Server(Agent(nothing), f"unix:{path}").start()), OSError)
    assert path.read_text() == "a file"


async def test_a_socket_that_answers_is_not_touched(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "h.sock"
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(path))
        living.listen()
        status = path.lstat()
        (tmp_path / "h.sock.lock").write_text(f"{status.st_dev} {status.st_ino}\n")
        assert "served by another" in str(await caught(Server(Agent(nothing), f"unix:{path}").start()))
    assert path.exists()


async def test_a_lock_that_could_be_anothers_is_refused(tmp_path: pathlib.Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    (tmp_path / "link.lock").symlink_to(elsewhere)
    os.link(elsewhere, tmp_path / "hard.lock")
    (tmp_path / "folder.lock").mkdir()
    for name in ("link", "hard", "folder"):
        error = await caught(Server(Agent(nothing), f"unix:{tmp_path}/{name}").start())
        assert isinstance(error, OSError), name
    assert elsewhere.read_text() == "precious"


async def test_draining_lets_a_turn_end_and_takes_no_more(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        await sink.model([])

    server = Server(Agent(run), loopback)
    await server.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        one = Turn(channel)
        await one.start()
        call = (await one.event(v1.EVENT_MODEL_CALL)).model
        draining = asyncio.ensure_future(server.drain(grace_seconds=60))
        await asyncio.sleep(0)
        await one.send(model=v1.ModelResult(message=v1.Message(role="assistant"), model_call_id=call.id))
        await one.completed()
        await draining
    await server.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_signal_ends_serve(address: str, number: signal.Signals, times: int) -> None:
    """The first waits for turns, the second does not."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVED, address, stderr=asyncio.subprocess.PIPE, env=environment()
    )
    assert process.stderr is not None
    listening = (await process.stderr.readline()).decode().split()[-1]
    async with grpc.aio.insecure_channel(listening) as channel:
        one = Turn(channel)
        await one.start()
        await one.event(v1.EVENT_OUTPUT)
        call = (await one.event(v1.EVENT_MODEL_CALL)).model
        process.send_signal(number)
        if times == 1:
            await one.send(model=v1.ModelResult(message=v1.Message(role="assistant"), model_call_id=call.id))
            await one.completed()
        else:
            await refuses_new_turns(channel)
            process.send_signal(number)
            assert isinstance(await caught(one.call.read()), grpc.aio.AioRpcError)
    said = (await process.stderr.read()).decode()
    assert await process.wait() == 0, said
    assert "Traceback" not in said


async def refuses_new_turns(channel: grpc.aio.Channel) -> None:
    """Waits until the server has taken its first signal: then it has closed its door."""
    while channel.get_state() == grpc.ChannelConnectivity.READY:
        await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)


def environment() -> dict[str, str]:
    """This process's, with our modules in reach of another one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
