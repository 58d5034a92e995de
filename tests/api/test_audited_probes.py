"""Previews, trials, validations and preflights leave entries: who aimed which class where, and how it ended."""

import json
from typing import Any

import pytest
from django.test import Client

from ringfence.audit.probes import hosts_in
from ringfence.dispatch import Refusal
from tests.support.leader import FakeLeader

JSON = "application/json"
CONFIG = {
    "name": "shop",
    "connector.class": "SqlSource",
    "connection.url": "jdbc:postgresql://reader:secret77@db.example.com:5432/shop?ssl=true",
    "connection.password": "secret77",
}


pytestmark = pytest.mark.usefixtures("login_required")


@pytest.fixture
def client() -> Client:
    headers = {"host": "localhost", "authorization": "Bearer master"}
    return Client(headers=headers, raise_request_exception=False, REMOTE_ADDR="10.1.2.3")


def entries() -> list[Any]:
    from ringfence.audit.models import AuditEntry

    return list(AuditEntry.objects.order_by("id"))


@pytest.mark.parametrize(
    ("config", "hosts"),
    [
        ({"connection.url": CONFIG["connection.url"]}, ["db.example.com:5432"]),
        ({"rest.config": '{"client": {"base_url": "https://api.example.com/v1?key=k"}}'}, ["api.example.com"]),
        ({"database.hostname": "db", "database.port": "5432"}, ["db"]),
        ({"source.cluster.bootstrap.servers": "b1:9092, b2:9092"}, ["b1:9092", "b2:9092"]),
        ({"value.converter.schema.registry.url": "http://[fd00::1]:8081/x"}, ["[fd00::1]:8081"]),
        ({"connection.url": "sqlite:////tmp/shop.sqlite", "file": "/etc/passwd", "topic": "a.b"}, []),
        ({"database.hostname": "${file:/secrets:host}"}, []),
        ({"u": " ".join(f"http://h{n:02}/" for n in range(30))}, [f"h{n:02}" for n in range(10)]),
    ],
)
def test_hosts_are_shown_and_nothing_else(config: dict[str, str], hosts: list[str]) -> None:
    assert hosts_in(config) == hosts


def test_each_preview_and_trial_leaves_an_entry_with_class_and_host(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence.api.v1 import previews

    asked: list[str] = []

    def answer(*_: object, **__: object) -> dict[str, Any]:
        asked.append(entries()[-1].outcome)  # the entry stands before the act begins
        if len(asked) == 2:
            raise Refusal(503, "1 previews of your account are under way")
        return {}

    monkeypatch.setattr(previews, "preview", answer)
    monkeypatch.setattr(previews, "try_transforms", answer)
    for _ in range(2):
        client.post("/api/v1/preview", {"config": CONFIG}, content_type=JSON)
    client.post("/api/v1/transforms/trial", {"config": CONFIG, "record": {"topic": "t"}}, content_type=JSON)
    assert asked == ["unknown"] * 3
    done, failed, tried = entries()
    assert (done.user, done.address, done.action, done.connector) == ("token", "10.1.2.3", "preview", "shop")
    assert (done.outcome, done.status, failed.outcome, failed.status) == ("done", 200, "failed", 503)
    assert (tried.action, tried.outcome) == ("try transforms", "done")
    assert json.loads(done.after) == {"class": "SqlSource", "hosts": ["db.example.com:5432"]}
    assert not any("secret77" in str(vars(entry)) for entry in entries())


def test_validations_are_folded_by_account_class_and_host(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence.audit import probes

    def validate(**more: str) -> None:
        config = {**CONFIG, **more}
        client.put("/connector-plugins/SqlSource/config/validate", config, content_type=JSON)

    for query in ("select 1", "select 2", "select 3"):
        validate(query=query)
    assert [entry.action for entry in entries()] == ["validate"]
    validate(**{"connection.url": "jdbc:postgresql://internal/shop"})
    assert [json.loads(entry.after)["hosts"] for entry in entries()] == [["db.example.com:5432"], ["internal"]]
    monkeypatch.setattr(probes, "FOLDED_SECONDS", -60.0)  # all of that is long ago
    validate()
    assert len(entries()) == 3


def test_a_validation_that_ends_in_another_way_has_its_own_entry(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def validate() -> int:
        config = {"name": "c", "connector.class": "VerifiableSource", "topic": "t"}
        path = "/connector-plugins/VerifiableSource/config/validate"
        return client.put(path, config, content_type=JSON).status_code

    assert validate() == 200

    def refuse(_: object) -> None:
        raise Refusal(400, "No such plugin.")

    monkeypatch.setattr("ringfence.dispatch.ask", refuse)
    assert [validate(), validate()] == [400, 400]
    assert [(entry.outcome, entry.message) for entry in entries()] == [("done", ""), ("failed", "No such plugin.")]
