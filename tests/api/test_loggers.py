"""`/admin/loggers`: codes and bodies are Kafka Connect's."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from ringfence.api.loggers import _Follower
from ringfence.engine.leader.commands import SetLogLevel
from ringfence.fencing.topics import log_levels
from tests.support.leader import FakeLeader

JSON = "application/json"


@pytest.fixture(autouse=True)
def _levels_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import ringfence.api.loggers

    follower = _Follower()
    monkeypatch.setattr(ringfence.api.loggers, "follower", follower)
    monkeypatch.setattr(ringfence.api.loggers, "follower", follower)
    known = {name: one.level for name, one in log_levels._loggers().items()}
    yield
    for name, logger in log_levels._loggers().items():
        logger.setLevel(known.get(name, logging.NOTSET))


def body(response: Any) -> Any:
    return json.loads(response.content)


def put(client: Client, path: str, sent: object) -> Any:
    return client.put(f"/admin/loggers/{path}", sent, content_type=JSON)


def test_the_list_has_the_root_and_takes_a_slash(client: Client) -> None:
    told = body(client.get("/admin/loggers/"))
    assert set(told["root"]) == {"level", "last_modified"}
    assert body(client.get("/admin/loggers/root")) == told["root"]


def test_one_process_answers_with_what_it_changed(client: Client, unique: Callable[[str], str]) -> None:
    name = unique("one")
    response = put(client, name, {"level": "debug"})
    assert (response.status_code, body(response)) == (200, [name])
    assert body(put(client, f"{name}?scope=bogus", {"level": "DEBUG"})) == []
    told = body(client.get(f"/admin/loggers/{name}"))
    assert told["level"] == "DEBUG"
    assert isinstance(told["last_modified"], int)


def test_the_cluster_is_told_through_the_config_topic(
    client: Client, leader: FakeLeader, unique: Callable[[str], str]
) -> None:
    name = unique("all")
    response = put(client, f"{name}?scope=CLUSTER", {"level": "debug"})
    assert (response.status_code, response.content) == (204, b"")
    assert leader.asked[-1] == ("set_log_level", None, {"logger": name, "level": "DEBUG"})
    assert leader.config.records[-1].key == f"logger-cluster-{name}".encode()
    assert logging.getLogger(name).isEnabledFor(logging.DEBUG), "this process is of the cluster, too"


def test_a_process_takes_no_level_that_is_older_than_itself(
    client: Client, leader: FakeLeader, unique: Callable[[str], str]
) -> None:
    name = unique("old")
    leader.command(SetLogLevel(name, "DEBUG"))
    assert client.get(f"/admin/loggers/{name}").status_code == 404


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        ({}, 400, "Desired 'level' parameter was not specified in request."),
        ({"level": None}, 400, "Desired 'level' parameter was not specified in request."),
        ({"level": "loud"}, 404, "invalid log level 'loud'."),
        ({"level": 5}, 404, "invalid log level '5'."),
        ([], 400, "The request body must be a JSON object."),
        ("", 400, "The request body must be a JSON object."),
    ],
)
@pytest.mark.parametrize("scope", ["", "?scope=cluster"])
def test_refusals(client: Client, leader: FakeLeader, sent: Any, status: int, message: str, scope: str) -> None:
    response = put(client, f"some.logger{scope}", sent)
    assert (response.status_code, body(response)) == (status, {"error_code": status, "message": message})
    assert leader.asked == []


def test_an_unknown_logger_is_404(client: Client) -> None:
    response = client.get("/admin/loggers/bogus.one")
    assert (response.status_code, body(response)["message"]) == (404, "Logger bogus.one not found.")


@pytest.mark.parametrize("scope", ["", "?scope=cluster"])
def test_no_logger_is_made_to_write_secrets(client: Client, leader: FakeLeader, scope: str) -> None:
    assert put(client, f"celery.app.trace{scope}", {"level": "INFO"}).status_code == 400
    assert leader.asked == []
