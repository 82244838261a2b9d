"""Durable agent sessions: write a harness and serve it, or drive sessions on a host.

A harness is a class with two methods, `describe` and `run`; `serve` puts it at an address that a host attaches.
Everything that the agent does to the world goes through the `Sink` that `run` is given: the host records it first, and
serves the record instead when the turn is replayed, resumed or forked. `Client` creates sessions and runs turns.
"""

from inspan import messages, v1
from inspan.client import Client, DeltaUpdate, HostError, RecordUpdate, SessionUpdate, Turn, Update
from inspan.contract import (
    MEMORY,
    REPLAY,
    Completion,
    Descriptor,
    Failed,
    Harness,
    InvalidRequestError,
    Parked,
    Sink,
    SinkClosedError,
    SinkError,
    Start,
    ToolReply,
)
from inspan.server import Server, serve

__all__ = [
    "MEMORY",
    "REPLAY",
    "Client",
    "Completion",
    "DeltaUpdate",
    "Descriptor",
    "Failed",
    "Harness",
    "HostError",
    "InvalidRequestError",
    "Parked",
    "RecordUpdate",
    "Server",
    "SessionUpdate",
    "Sink",
    "SinkClosedError",
    "SinkError",
    "Start",
    "ToolReply",
    "Turn",
    "Update",
    "messages",
    "serve",
    "v1",
]
