"""Whatever is sent to the routes of Kafka Connect's API, the answer is no 500, and an error is an error object."""

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.leader import FakeLeader

FIELDS = (
    "name",
    "config",
    "initial_state",
    "offsets",
    "partition",
    "offset",
    "level",
    "connector.class",
    "topic",
    "pin",
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
) | st.sampled_from(["team-a", "VerifiableSource", "STOPPED", "[hidden]", "INFO"])  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=8,
)
BODIES = (
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4).map(json.dumps).map(str.encode)
    | VALUES.map(json.dumps).map(str.encode)
    | st.binary(max_size=12)
)
QUERIES = st.dictionaries(
    st.sampled_from(["expand", "includeTasks", "onlyFailed", "connectorsOnly", "scope", "forward", "x"]),
    st.sampled_from(["true", "status", "info", "cluster", "worker", "", "\x00"]) | st.text(max_size=4),
    max_size=2,
)
NAMES = st.sampled_from(["team-a", "VerifiableSource", "root", "fencing"]) | st.text(min_size=1, max_size=6)
ASKED = [("get", False), ("post", True), ("put", True), ("patch", True), ("delete", False), ("get", True)]


def routes() -> list[str]:
    """All but those of our own API, which tests/api/test_own_schema.py asks for, and of one page."""
    from ringfence.api.urls import urlpatterns

    found = [str(entry.pattern) for entry in urlpatterns if isinstance(entry, URLPattern)]
    return [path for path in found if not path.startswith("api/")]


def send(client: Client, data: Any) -> None:
    from urllib.parse import quote

    method, with_body = data.draw(st.sampled_from(ASKED))
    path = data.draw(st.sampled_from(routes()))
    path = re.sub("<name:name>", lambda _: quote(data.draw(NAMES), safe=""), path)
    path = re.sub("<int:task>", lambda _: str(data.draw(st.sampled_from([0, 1, 2**31, 2**70]))), path)
    query = data.draw(QUERIES)
    body = data.draw(BODIES) if with_body else b""
    kind = data.draw(st.sampled_from(["application/json", "application/json", "text/plain", ""])) if with_body else ""
    response = client.generic(method.upper(), f"/{path}", body, content_type=kind, query_params=query)
    what = (method, path, query, body, response.status_code, response.content)
    assert response.status_code < 500, what
    if response.status_code >= 400:
        told = json.loads(response.content)
        assert told["error_code"] == response.status_code, what
        assert told["message"], what


FUZZED = settings(database=None, suppress_health_check=list(HealthCheck))


@settings(FUZZED, max_examples=300, derandomize=True)
@given(st.data())
def test_no_request_gives_a_500(client: Client, two_connectors: FakeLeader, data: st.DataObject) -> None:
    send(client, data)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(FUZZED, max_examples=5_000)
@given(st.data())
def test_no_request_of_many_gives_a_500(client: Client, two_connectors: FakeLeader, data: st.DataObject) -> None:
    send(client, data)
