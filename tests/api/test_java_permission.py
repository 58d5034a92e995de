"""Whoever may edit a connector may not yet make it a Java plugin's: each door tells the worker who asks."""

from contextlib import suppress

import pytest
from django.test import Client

from ringfence.access.principal import Principal, Right
from ringfence.access.verbs import ROLES, Verb
from ringfence.api import preflight, writing
from ringfence.dispatch import Refused
from ringfence.http.errors import ConnectError
from tests.support.leader import FakeLeader

EDITOR = Principal("ann", "token", (Right(ROLES["editor"], "team-*"),))
TRUSTED = Principal("bob", "token", (Right(ROLES["editor"] | {Verb.JAVA_PLUGINS}, "team-*"),))
CONFIG = {"name": "team-a", "connector.class": "io.debezium.connector.postgresql.PostgresConnector"}


@pytest.mark.parametrize(("by", "java"), [(EDITOR, False), (TRUSTED, True)])
def test_the_worker_hears_whether_java_may_be_used(leader: FakeLeader, by: Principal, java: bool) -> None:
    with suppress(ConnectError, Refused):  # the stand-in has no such class
        writing.validate(dict(CONFIG), by)
    preflight.checks_of(CONFIG, by)
    assert leader.java == [("validate", java), ("preflight", java)]


def test_so_do_the_validation_and_the_preview_of_people(leader: FakeLeader, client: Client) -> None:
    ask = {"config": {**CONFIG, "connector.class": "VerifiableSource", "topic": "t"}}
    client.post("/api/v1/preview", ask, content_type="application/json")
    client.put("/connector-plugins/VerifiableSource/config/validate", ask["config"], content_type="application/json")
    assert leader.java == [("preview", True), ("validate", True)], "whoever needs no login may do everything"


def test_of_the_roles_only_admin_has_it() -> None:
    assert [name for name, verbs in ROLES.items() if Verb.JAVA_PLUGINS in verbs] == ["admin"]
    assert not TRUSTED.may(Verb.JAVA_PLUGINS, "other")
