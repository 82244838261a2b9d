"""A conversation with each kind of model server, over real HTTP, through a kill of the host."""

import os

import pytest

from conftest import check_chain
from providers import Anthropic, OpenAi, serve
from test_grpcio import create, exec_turn, kinds, watch

KEY = "key-of-the-test"
APIS = {"openai": (OpenAi, "authorization", f"Bearer {KEY}"), "anthropic": (Anthropic, "x-api-key", KEY)}


def output(stubs, updates):
    records = [update.record for update in updates if update.HasField("record")]
    texts = [r.event.message.parts[0].text.text for r in records if r.event.kind == stubs.common.EVENT_OUTPUT]
    assert kinds(stubs, records)[-1] == "END" and len(texts) == 1, kinds(stubs, records)
    return texts[0]


@pytest.mark.parametrize("api", APIS)
def test_a_conversation_is_held_and_outlives_its_host(make_host, stubs, api, tmp_path):
    handler, header, value = APIS[api]
    env = {**os.environ, "MODEL_API_KEY": KEY}
    with serve(handler) as provider:
        flags = ["--model", "m", "--model-api", api, "--model-base-url", f"{provider.url}/v1"]
        host = make_host(*flags, env=env)
        uid = create(stubs.Sessions(host.channel), stubs)
        turn = lambda text: exec_turn(stubs.Sessions(host.channel), stubs, uid, text, harness="chat")

        first = turn("one")
        assert output(stubs, first) == "user=one"
        chunks = [update.delta.chunk for update in first if update.HasField("delta")]
        assert "".join(chunks) == "user=one" and len(chunks) >= 2, "the text was streamed"
        assert output(stubs, turn("two")) == "user=one | assistant=user=one | user=two"

        host.kill()
        host = make_host(*flags, env=env)
        third = output(stubs, turn("three"))
        assert third.startswith("user=one | assistant=user=one | user=two | assistant=") and third.endswith("user=three")

        assert len(provider.requests) == 3, "each turn asked once"
        for headers in provider.headers:
            assert {name.lower(): text for name, text in headers.items()}[header] == value
        journal = stubs.Journal(host.channel)
        last = stubs.Sessions(host.channel).GetSession(stubs.session.GetSessionRequest(uid=uid)).last_seq
        check_chain(watch(journal, stubs, uid, last))
        rerun = journal.Rerun(stubs.inspan.RerunRequest(session=uid))
        assert rerun.executions == 3 and len(provider.requests) == 3, "a rerun asks nobody"

    secrets = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert not secrets and KEY not in "".join(host.log), "the key is neither in the journal nor in the log"
