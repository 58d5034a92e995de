"""Whoever may edit a connector may not yet make it a Java plugin's: each door tells the worker who asks."""

import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.test import Client

from ringfence.access.principal import ROLES, Principal, Right, Verb
from ringfence.api import connector_writes, preflight
from ringfence.connectors.java.runtime import ENVIRONMENT
from ringfence.dispatch import Refusal
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import CheckIsJava
from ringfence.engine.preflight.validation import Validation
from ringfence.engine.questions import Preflight, Preview, TryTransforms, Validate, WorkerQuestion
from ringfence.fencing.clock import Deadline
from ringfence.http.errors import ConnectError
from tests.support.leader import FakeLeader

EDITOR = Principal("ann", "token", (Right(ROLES["editor"], "team-*"),))
TRUSTED = Principal("bob", "token", (Right(ROLES["editor"] | {Verb.JAVA_PLUGINS}, "team-*"),))
CONFIG = {"name": "team-a", "connector.class": "io.debezium.connector.postgresql.PostgresConnector"}


@pytest.mark.parametrize(("by", "java"), [(EDITOR, False), (TRUSTED, True)])
def test_the_worker_hears_whether_java_may_be_used(leader: FakeLeader, by: Principal, java: bool) -> None:
    with suppress(ConnectError, Refusal):  # the stand-in has no such class
        connector_writes.validate(dict(CONFIG), by)
    with suppress(ConnectError, Refusal):
        connector_writes.configure(CONFIG["name"], CONFIG, by)
    preflight.checks_of(CONFIG, by)
    assert leader.java == [("validate", java), ("validate", java), ("preflight", java)]


def test_so_do_the_validation_and_the_preview_of_people(leader: FakeLeader, client: Client) -> None:
    ask = {"config": {**CONFIG, "connector.class": "VerifiableSource", "topic": "t"}}
    client.post("/api/v1/preview", ask, content_type="application/json")
    client.put("/connector-plugins/VerifiableSource/config/validate", ask["config"], content_type="application/json")
    client.post("/api/v1/transforms/trial", {**ask, "record": {"topic": "t"}}, content_type="application/json")
    client.post("/ui/new/trial", {"json": json.dumps(ask["config"]), "sample": '{"topic": "t"}'})
    assert leader.java == [(door, True) for door in ("preview", "validate", "try_transforms", "try_transforms")], (
        "whoever needs no login may do everything"
    )


class JavaPlugins(PluginHost):
    """Nothing but the kind of a plugin is there to be asked."""

    call_seconds = 10.0

    def __init__(self) -> None:
        self._environment = {ENVIRONMENT: "{}"}

    def ask(self, call: Any, timeout: float | None = None) -> Any:
        assert isinstance(call, CheckIsJava)
        return True


@pytest.mark.parametrize(
    "question",
    [
        Validate(CONFIG["connector.class"], CONFIG, java=False),
        Preflight(CONFIG, java=False),
        Preview(CONFIG, [], {}, fresh=True, java=False),
        TryTransforms(CONFIG, {"topic": "t"}, [], java=False),
    ],
    ids=lambda question: question.name,
)
def test_the_worker_refuses_before_any_java_code_runs(question: WorkerQuestion[Any]) -> None:
    plugins = JavaPlugins()
    validation = Validation(plugins, cast("Any", None), cast("Any", None), cast("Any", None))
    services: Any = SimpleNamespace(plugins=plugins, validation=validation)
    with pytest.raises(Refusal, match="you need the permission java-plugins"):
        question.answer(services, Deadline.after(5))


def test_of_the_roles_only_admin_has_it() -> None:
    assert [name for name, verbs in ROLES.items() if Verb.JAVA_PLUGINS in verbs] == ["admin"]
    assert not TRUSTED.may(Verb.JAVA_PLUGINS, "other")
