"""What the database keeps goes when it is old enough, and not before; the trail can be had as lines of JSON first."""

import argparse
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from ringfence.access.models import LoginSession
from ringfence.audit import retention
from ringfence.audit.models import AppendOnly, AuditEntry, Outcome
from ringfence.audit.trail import record
from ringfence.commands import audit
from ringfence.fencing.errors import Invalid
from ringfence.history.models import ConfigVersion, DeletedConnector, OffsetSnapshot
from ringfence.projection.models import Connector

DAY = 24 * 3600 * 1000


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    Connector.objects.create(name="there", known=True)
    for name in ("there", "gone"):
        for number in (1, 2, 3):
            ConfigVersion.objects.create(connector=name, number=number, config_offset=number, time_ms=0, config="{}")
        OffsetSnapshot.objects.create(connector=name, number=1, time_ms=0, offsets="[]")
    yield
    DeletedConnector.objects.all().delete()


def numbers(name: str) -> list[int]:
    return list(ConfigVersion.objects.filter(connector=name).order_by("number").values_list("number", flat=True))


def test_versions_of_a_deleted_connector_go_some_time_after_its_deletion() -> None:
    retention.delete_expired(100 * DAY)  # however old its versions are: it counts as deleted from now on
    retention.delete_expired(129 * DAY)
    assert numbers("gone") == [1, 2, 3]
    retention.delete_expired(131 * DAY)
    assert numbers("gone") == []
    assert numbers("there") == [1, 2, 3]
    assert list(OffsetSnapshot.objects.values_list("connector", flat=True)) == ["there"]
    assert not DeletedConnector.objects.exists()


def test_one_that_is_created_again_begins_anew() -> None:
    retention.delete_expired(100 * DAY)
    Connector.objects.create(name="gone", known=True)
    retention.delete_expired(120 * DAY)
    Connector.objects.filter(name="gone").delete()
    retention.delete_expired(140 * DAY)
    assert numbers("gone") == [1, 2, 3]


def test_each_connector_keeps_its_newest_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_KEEP_VERSIONS", "2")
    retention.delete_expired(0)
    assert numbers("there") == [2, 3]
    monkeypatch.setenv("RINGFENCE_KEEP_VERSIONS", "many")
    with pytest.raises(Invalid, match="RINGFENCE_KEEP_VERSIONS=many"):
        retention.delete_expired(0)


def test_the_trail_is_exported_and_then_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record("edit", user="ann", via="token", address="::1", outcome=Outcome.DONE, before={"a": "ä"})
    monkeypatch.setattr(audit, "connect", lambda data: None)
    parsed = argparse.Namespace(data=None, since_id=0)
    assert audit.run(parsed) == 0
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["user"], line["before"], line["outcome"]) == ("ann", {"a": "ä"}, "done")
    now = AuditEntry.objects.get().time_ms
    retention.delete_expired(now + 364 * DAY)
    assert AuditEntry.objects.count() == 1
    with pytest.raises(AppendOnly):
        AuditEntry.objects.all().delete()
    retention.delete_expired(now + 366 * DAY)
    assert AuditEntry.objects.count() == 0


def test_sessions_that_are_over_go() -> None:
    for key, days in (("old", -1), ("new", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=timezone.now() + timedelta(days=days))
        LoginSession.objects.create(key_hash=key, account="ann", created_ms=0, seen_ms=0)
    retention.delete_expired(0)
    assert list(LoginSession.objects.filter(account="ann").values_list("key_hash", flat=True)) == ["new"]
    LoginSession.objects.all().delete()
    assert list(Session.objects.filter(session_key__in=["old", "new"]).values_list("session_key", flat=True)) == ["new"]
