import datetime

from inspan._gen.agentsessions.v1 import common_pb2 as _common_pb2
from inspan._gen.agentsessions.v1 import session_pb2 as _session_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AskedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ASKED_BY_UNSPECIFIED: _ClassVar[AskedBy]
    ASKED_BY_HARNESS: _ClassVar[AskedBy]
    ASKED_BY_POLICY: _ClassVar[AskedBy]
    ASKED_BY_RECOVERY: _ClassVar[AskedBy]
ASKED_BY_UNSPECIFIED: AskedBy
ASKED_BY_HARNESS: AskedBy
ASKED_BY_POLICY: AskedBy
ASKED_BY_RECOVERY: AskedBy

class Record(_message.Message):
    __slots__ = ("seq", "prev_hash", "content_hash", "fence", "ts", "canonical_event", "event")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PREV_HASH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TS_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_EVENT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    prev_hash: str
    content_hash: str
    fence: int
    ts: _timestamp_pb2.Timestamp
    canonical_event: str
    event: _common_pb2.Event
    def __init__(self, seq: _Optional[int] = ..., prev_hash: _Optional[str] = ..., content_hash: _Optional[str] = ..., fence: _Optional[int] = ..., ts: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., canonical_event: _Optional[str] = ..., event: _Optional[_Union[_common_pb2.Event, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("session", "from_seq", "records_only")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    RECORDS_ONLY_FIELD_NUMBER: _ClassVar[int]
    session: str
    from_seq: int
    records_only: bool
    def __init__(self, session: _Optional[str] = ..., from_seq: _Optional[int] = ..., records_only: bool = ...) -> None: ...

class WatchUpdate(_message.Message):
    __slots__ = ("record", "delta", "heartbeat", "session")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    record: Record
    delta: _session_pb2.Delta
    heartbeat: Heartbeat
    session: _session_pb2.Session
    def __init__(self, record: _Optional[_Union[Record, _Mapping]] = ..., delta: _Optional[_Union[_session_pb2.Delta, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., session: _Optional[_Union[_session_pb2.Session, _Mapping]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("last_seq",)
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    last_seq: int
    def __init__(self, last_seq: _Optional[int] = ...) -> None: ...

class RerunRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class RerunResponse(_message.Message):
    __slots__ = ("executions", "effects", "outputs")
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    executions: int
    effects: int
    outputs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, executions: _Optional[int] = ..., effects: _Optional[int] = ..., outputs: _Optional[_Iterable[str]] = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class VerifyResponse(_message.Message):
    __slots__ = ("records", "last_seq", "head_hash", "blobs", "requests", "bad_seq", "fault")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    HEAD_HASH_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    BAD_SEQ_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    records: int
    last_seq: int
    head_hash: str
    blobs: int
    requests: int
    bad_seq: int
    fault: str
    def __init__(self, records: _Optional[int] = ..., last_seq: _Optional[int] = ..., head_hash: _Optional[str] = ..., blobs: _Optional[int] = ..., requests: _Optional[int] = ..., bad_seq: _Optional[int] = ..., fault: _Optional[str] = ...) -> None: ...

class GetModelRequestRequest(_message.Message):
    __slots__ = ("session", "seq")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    session: str
    seq: int
    def __init__(self, session: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class GetModelRequestResponse(_message.Message):
    __slots__ = ("text", "input_hash")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INPUT_HASH_FIELD_NUMBER: _ClassVar[int]
    text: str
    input_hash: str
    def __init__(self, text: _Optional[str] = ..., input_hash: _Optional[str] = ...) -> None: ...

class ExportRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class ImportResponse(_message.Message):
    __slots__ = ("sessions", "records")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[_session_pb2.Session]
    records: int
    def __init__(self, sessions: _Optional[_Iterable[_Union[_session_pb2.Session, _Mapping]]] = ..., records: _Optional[int] = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("session", "project", "name", "harness", "call", "call_seq", "tool", "args_preview", "args_bytes", "args_digest", "asked_by", "rule", "reason", "since", "expires", "fault")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    CALL_SEQ_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGS_PREVIEW_FIELD_NUMBER: _ClassVar[int]
    ARGS_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARGS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    session: str
    project: str
    name: str
    harness: str
    call: _common_pb2.ApprovalRef
    call_seq: int
    tool: str
    args_preview: str
    args_bytes: int
    args_digest: str
    asked_by: AskedBy
    rule: str
    reason: str
    since: _timestamp_pb2.Timestamp
    expires: _timestamp_pb2.Timestamp
    fault: str
    def __init__(self, session: _Optional[str] = ..., project: _Optional[str] = ..., name: _Optional[str] = ..., harness: _Optional[str] = ..., call: _Optional[_Union[_common_pb2.ApprovalRef, _Mapping]] = ..., call_seq: _Optional[int] = ..., tool: _Optional[str] = ..., args_preview: _Optional[str] = ..., args_bytes: _Optional[int] = ..., args_digest: _Optional[str] = ..., asked_by: _Optional[_Union[AskedBy, str]] = ..., rule: _Optional[str] = ..., reason: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., fault: _Optional[str] = ...) -> None: ...

class ListAsksRequest(_message.Message):
    __slots__ = ("project", "page_size", "page_token")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    project: str
    page_size: int
    page_token: str
    def __init__(self, project: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAsksResponse(_message.Message):
    __slots__ = ("asks", "next_page_token")
    ASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    asks: _containers.RepeatedCompositeFieldContainer[Ask]
    next_page_token: str
    def __init__(self, asks: _Optional[_Iterable[_Union[Ask, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("session", "execution_id", "tool_call_id", "request_seq", "approved", "reason", "identity", "args_digest")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_SEQ_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ARGS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    session: str
    execution_id: str
    tool_call_id: str
    request_seq: int
    approved: bool
    reason: str
    identity: _common_pb2.IdentityRef
    args_digest: str
    def __init__(self, session: _Optional[str] = ..., execution_id: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., request_seq: _Optional[int] = ..., approved: bool = ..., reason: _Optional[str] = ..., identity: _Optional[_Union[_common_pb2.IdentityRef, _Mapping]] = ..., args_digest: _Optional[str] = ...) -> None: ...

class DecideResponse(_message.Message):
    __slots__ = ("session", "decision", "args_digest")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ARGS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    session: _session_pb2.Session
    decision: _common_pb2.LogRecord
    args_digest: str
    def __init__(self, session: _Optional[_Union[_session_pb2.Session, _Mapping]] = ..., decision: _Optional[_Union[_common_pb2.LogRecord, _Mapping]] = ..., args_digest: _Optional[str] = ...) -> None: ...
