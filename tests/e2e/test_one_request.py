"""The id of one request leads from its answer to every place where its consequences are told."""

import uuid
from collections.abc import Callable
from typing import Any

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_log import ConfigLog
from tests.e2e.flow import Flow
from tests.e2e.rest import Json
from tests.e2e.up import Up
from tests.support.waiting import eventually


def listed(up: Up, path: str, **filters: str) -> list[Json]:
    answer = up.rest.call("GET", path, params=filters)
    assert answer.status_code == 200, answer.text
    items: list[Json] = answer.json()["results"]
    return items


def lines(up: Up, role: str, id_: str) -> list[str]:
    path = up.data / "logs" / f"{role}.log"
    return [line for line in path.read_text(errors="replace").splitlines() if id_ in line]


def _check_record(up: Up, one: Flow, event: Json) -> None:
    """A record that is written now is of a transaction of the event's producer, and of its attempt."""
    one.await_progress()
    newest = up.rest.call("GET", f"/api/v1/topics/{one.name}/records", params={"from": "latest", "limit": "1"}).json()
    record = newest["records"][-1]
    path = f"/api/v1/topics/{one.name}/records/{record['partition']}/{record['offset']}/origin"
    origin = up.rest.call("GET", path).json()
    assert origin["transaction"]["producer_id"] == event["producer_id"], origin
    assert origin["transaction"]["transactional_id"] == event["transactional_id"]
    assert [origin["source"][name] for name in ("generation", "attempt")] == [event["generation"], event["attempt"]]


def test_from_a_call_to_a_transaction(platform: Up, flow: Callable[..., Flow]) -> None:
    one, id_ = flow(), f"deploy-{uuid.uuid4().hex[:8]}"
    trace = f"00-{uuid.uuid4().hex}-00f067aa0ba902b7-01"
    answer = platform.rest.call(
        "PUT",
        f"/connectors/{one.name}/config",
        one.config(**{"offset.flush.timeout.ms": "4000"}),
        headers={"X-Request-ID": id_, "traceparent": trace},
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Request-ID"] == id_
    one.await_progress()

    def told() -> dict[str, Json]:
        events = listed(platform, f"/api/v1/connectors/{one.name}/events", request=id_)
        kinds = {event["kind"]: event for event in events}
        assert {"command", "round", "task"} <= kinds.keys(), kinds
        return kinds

    kinds = eventually(told, 30, "the events of the request")
    assert all(event["request"] == id_ for event in kinds.values())

    def running() -> list[Json]:
        events = listed(platform, f"/api/v1/connectors/{one.name}/events", request=id_, kind="task")
        return [event for event in events if event["transactional_id"]]

    event = eventually(running, 30, "the event of a producer")[0]
    assert event["transactional_id"].endswith(f"{one.name}-0")
    _check_record(platform, one, event)

    (entry,) = listed(platform, "/api/v1/audit", request_id=id_)
    assert entry["connector"] == one.name
    generations = listed(platform, f"/api/v1/connectors/{one.name}/generations")
    assert generations[0]["request"] == id_, generations

    def log_lines() -> list[Json]:
        rows = listed(platform, f"/api/v1/connectors/{one.name}/logs", request=id_)
        assert any(row["task"] == 0 for row in rows), rows
        return rows

    assert eventually(log_lines, 30, "the log lines of its task")
    assert [line for line in lines(platform, "web", id_) if f"PUT /connectors/{one.name}/config 200" in line]
    assert lines(platform, "worker-1", id_) + lines(platform, "worker-2", id_)

    # A later attempt, which nobody has asked for, still tells which request it runs for: so does the topic.
    log = ConfigLog(platform.connection, "connect-configs", Deadline.after(30))
    try:
        request: Any = log.refresh(Deadline.after(30)).connector(ConnectorName(one.name)).request
    finally:
        log.close()
    assert (request.id, request.trace) == (id_, trace)
    one.settle()
