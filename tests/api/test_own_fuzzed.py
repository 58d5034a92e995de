"""Whatever is sent to `/api/v1/`, the answer is no 500."""

# ruff: noqa: F811 - fixtures that are imported

import json

from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.test_own_api import two  # noqa: F401 - a fixture
from tests.support.leader import FakeLeader

FIELDS = (
    "name",
    "config",
    "reason",
    "transactional_id",
    "connectors",
    "offsets",
    "snapshot",
    "reset",
    "text",
    "format",
)
MORE = ("partition", "offset", "initial_offsets", "initial_state", "why", "dry_run", "only_failed", "connector.class")
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["team-a", "yaml"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS + MORE), inner, max_size=4),
    max_leaves=6,
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_no_body_and_no_query_gives_a_500(client: Client, two: FakeLeader, data: st.DataObject) -> None:
    from ringfence.api.v1.schema import document

    routes = sorted((path, method) for path, methods in document()["paths"].items() for method in methods)
    path, method = data.draw(st.sampled_from(routes))
    path = path.replace("{name}", "team-a").replace("{number}", str(data.draw(st.sampled_from([0, 1, 2**31, 2**70]))))
    if method == "get":
        names = st.sampled_from(
            ["limit", "offset", "order", "since", "connector", "user", "to", "open", "format", "task"]
        )
        response = client.get(path, data.draw(st.dictionaries(names, st.text(max_size=8), max_size=2)))
    else:
        body = data.draw(st.dictionaries(st.sampled_from(FIELDS + MORE), VALUES, max_size=3) | VALUES)
        response = getattr(client, method)(path, json.dumps(body), content_type="application/json")
    assert response.status_code < 500, (method, path, response.content)
