"""schemathesis sends what openapi.json allows and what it does not; no answer may be outside the description."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from conftest import ROOT, SECONDS_MAX


@pytest.fixture(scope="module")
def described(host):
    return schemathesis.openapi.from_url(f"{host.url}/v1/openapi.json").exclude(path_regex="/watch$")


schema = schemathesis.pytest.from_fixture("described")


@schemathesis.hook
def map_query(context, query):
    """A followed stream has no end to wait for."""
    return {name: value for name, value in query.items() if name != "follow"} if query else query


def has_null(value):
    """A member of a oneof that is null counts as left out, where the description counts it as there."""
    if isinstance(value, dict):
        return any(map(has_null, value.values()))
    if isinstance(value, list):
        return any(map(has_null, value))
    return value is None


def not_held(case):
    """Checks that an answer to `case` does not have to pass."""
    # That a body names the session of its path is a rule that JSON Schema cannot say.
    yield positive_data_acceptance
    if has_null(case.body):
        yield negative_data_rejection


@schema.parametrize()
@settings(max_examples=30, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_described(case):
    case.call_and_validate(timeout=SECONDS_MAX, excluded_checks=list(not_held(case)))


def test_the_committed_description_is_the_served_one(host):
    import urllib.request

    with urllib.request.urlopen(f"{host.url}/v1/openapi.json", timeout=SECONDS_MAX) as answer:
        served = json.load(answer)
    committed = list(ROOT.glob("docs/**/openapi.json"))
    assert [json.loads(path.read_text()) for path in committed] == [served]
