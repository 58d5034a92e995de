"""Who acts without a login has one name in all places, and a creation is called one."""

import json
import time

import pytest
from django.test import Client

from ringfence.access.principal import WITHOUT_LOGIN
from ringfence.alerts.models import Incident, Silence
from ringfence.audit.models import AuditEntry, Outcome
from ringfence.history.models import OffsetSnapshot, PluginInstallation, ProofRun
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

NAME = "flights"


@pytest.fixture
def acts(leader: FakeLeader) -> None:
    """One of each kind, by somebody who needs no login."""
    leader.config.config(connector(NAME, topic="t"))
    leader.start(NAME)
    now_ms = int(time.time() * 1000)
    AuditEntry.objects.create(
        time_ms=now_ms, connector=NAME, action="create", request="POST /connectors", outcome=Outcome.DONE
    )
    OffsetSnapshot.objects.create(connector=NAME, number=1, time_ms=now_ms, why="before", offsets=json.dumps([]))
    for number in (1, 2):
        ProofRun.objects.create(
            connector=NAME, number=number, state="failed", error="x", started_ms=now_ms, beat_ms=now_ms
        )
    PluginInstallation.objects.create(plugin="a:b:1", ready=True, started_ms=now_ms)
    Incident.objects.create(
        rule_name="r", kind="failed", subject="s", connector=NAME, summary="It has failed", began_ms=now_ms,
        opened_ms=now_ms, acknowledged_ms=now_ms,
    )  # fmt: skip
    Silence.objects.create(connector=NAME, created_ms=now_ms, until_ms=now_ms + 3_600_000, why="known")


@pytest.mark.parametrize(
    "path",
    [
        "/ui/settings/audit",
        f"/ui/connectors/{NAME}/timeline",
        f"/ui/connectors/{NAME}/offsets",
        f"/ui/connectors/{NAME}/proof",
        "/ui/plugins",
        "/ui/incidents",
        "/ui/incidents/silences",
    ],
)
def test_it_is_the_same_everywhere(client: Client, acts: None, path: str) -> None:
    assert WITHOUT_LOGIN in text(client.get(path))


def test_a_creation_is_audited_as_a_creation(client: Client, acts: None) -> None:
    page = text(client.get(f"/ui/connectors/{NAME}/timeline"))
    assert f"{WITHOUT_LOGIN}: create, done" in " ".join(page.split())
