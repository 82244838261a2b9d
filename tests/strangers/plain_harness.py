"""A harness of grpcio and the .proto files alone: no line of the project's own SDKs is in it.

    python tests/strangers/plain_harness.py 127.0.0.1:0

It prints the address that it listens on. A turn does what the first word of its last input says: `look` has the host
run a tool, `pay` asks for a person first, and every turn ends by asking the model to repeat what came of it.
"""

import pathlib
import subprocess
import sys
import tempfile
from concurrent import futures

import grpc

PROTOS = pathlib.Path(__file__).resolve().parents[2] / "crates/wire/proto"
MESSAGE_BYTES_MAX = 256 << 20
TURNS_MAX = 64


def generated():
    """The messages and the service, made by the protobuf compiler as a stranger would make them."""
    names = [f"agentsessions/v1/{name}.proto" for name in ("common", "harness")]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", f"--python_out={folder}"]
        subprocess.run([*command, f"--grpc_python_out={folder}", *names], check=True)
        sys.path.insert(0, folder)
        from agentsessions.v1 import common_pb2, harness_pb2, harness_pb2_grpc

        return common_pb2, harness_pb2, harness_pb2_grpc


common, wire, service = generated()


class Parked(Exception):
    """The turn waits for a person."""


class Broken(Exception):
    """Host and harness no longer agree."""


class Turn:
    """One stream: a request waits for its answer by reading the next frame."""

    def __init__(self, frames):
        self.frames = frames
        first = next(frames, None)
        if not first or first.WhichOneof("frame") != "start" or not first.execution_id:
            raise ValueError("the first frame is no start that names its execution")
        self.session, self.execution_id, self.start = first.session, first.execution_id, first.start

    def event(self, kind, **body):
        return common.Event(execution_id=self.execution_id, kind=kind, **body)

    def frame(self, *kinds):
        """The next frame, of this turn and of one of these kinds."""
        frame = next(self.frames, None)
        if frame is None:
            raise Broken("the host ended the stream before it answered")
        if (frame.session, frame.execution_id) != (self.session, self.execution_id):
            raise Broken("a frame of another turn came")
        if frame.WhichOneof("frame") not in kinds:
            raise Broken(f"a frame {frame.WhichOneof('frame')} came while {' or '.join(kinds)} was due")
        return frame

    def model(self, text):
        message = common.Message(role="user", parts=[common.Part(text=common.TextPart(text=text))])
        yield self.event(common.EVENT_MODEL_CALL, model=common.ModelCall(id="ask", model="echo", messages=[message]))
        if self.frame("model").model.model_call_id != "ask":
            raise Broken("a completion of another call came")

    def tool(self, name, mediation):
        """Gives the result's text. The key is the execution's: the same when this turn runs again."""
        call = common.ToolCall(id=f"{name}-1", tool=name, mediation=mediation)
        call.idempotency_key = f"{self.execution_id}/{name}"
        call.args.update({"text": self.text()})
        yield self.event(common.EVENT_TOOL_CALL, tool=call)
        decision = self.decision(call) if mediation == common.MEDIATION_REQUIRES_APPROVAL else None
        result = self.frame("tool").tool
        if result.id != call.id or not self.fits(result, decision):
            raise Broken("a result came that does not fit its call")
        return result.error or "done"

    def fits(self, result, decision):
        """Whether a result is what its decision allows; a call without one has no receipt's fields."""
        seqs, outcome = (result.approval_request_seq, result.approval_decision_seq), (result.code, result.is_error)
        if decision is None:
            return seqs == (0, 0) and result.code != common.ToolResult.APPROVAL_DENIED
        done = [(common.ToolResult.CODE_UNSPECIFIED, False), (common.ToolResult.EXECUTOR_ERROR, True)]
        allowed = done if decision.approved else [(common.ToolResult.APPROVAL_DENIED, True)]
        return seqs[0] == decision.request_seq and seqs[1] > 0 and outcome in allowed

    def decision(self, call):
        """The decision on a call; a park when there is none yet."""
        frame = self.frame("approval", "park")
        said = frame.park if frame.HasField("park") else frame.approval
        if said.tool_call_id != call.id or said.request_seq <= 0 or not self.session:
            raise Broken("a park or a decision came that does not fit the call")
        if not frame.HasField("park"):
            return said
        if said.execution_id != self.execution_id:
            raise Broken("a park of another execution came")
        raise Parked(said)

    def text(self):
        parts = self.start.inputs[-1].parts if self.start.inputs else []
        return "".join(part.text.text for part in parts)

    def run(self):
        said = self.text()
        if said.startswith("look"):
            said = yield from self.tool("look", common.MEDIATION_CONTROLLER_MEDIATED)
        elif said.startswith("pay"):
            said = yield from self.tool("pay", common.MEDIATION_REQUIRES_APPROVAL)
        yield from self.model(said)


class Plain(service.HarnessServicer):
    def Describe(self, request, context):
        capabilities = wire.Capabilities(resumability=wire.RESUMABILITY_STATELESS_REPLAY, fork_safe=True)
        return wire.HarnessDescriptor(id="plain", version="1", capabilities=capabilities)

    def Connect(self, frames, context):
        try:
            turn = Turn(frames)
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        try:
            yield from turn.run()
            yield turn.event(common.EVENT_END, end=common.HarnessEnd(state="COMPLETED"))
        except Parked as parked:
            yield turn.event(common.EVENT_PARKED, parked=parked.args[0])
        except Broken as broken:
            end = common.HarnessEnd(state="FAILED", error=common.Error(description=str(broken)))
            yield turn.event(common.EVENT_END, end=end)


if __name__ == "__main__":
    limits = [(f"grpc.max_{way}_message_length", MESSAGE_BYTES_MAX) for way in ("receive", "send")]
    server = grpc.server(futures.ThreadPoolExecutor(TURNS_MAX), options=[*limits, ("grpc.so_reuseport", 0)])
    service.add_HarnessServicer_to_server(Plain(), server)
    port = server.add_insecure_port(sys.argv[1])
    server.start()
    print(sys.argv[1] if sys.argv[1].startswith("unix:") else f"{sys.argv[1].rpartition(':')[0]}:{port}", flush=True)
    server.wait_for_termination()
