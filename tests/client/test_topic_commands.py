"""`ringfence topics list|records|origin`, over REST."""

import json

import pytest

from ringfence import cli
from ringfence.projection.models import ActiveTopic
from tests.support.leader import FakeLeader


def test_topics_records_and_origins_at_the_command_line(two: FakeLeader, capsys: pytest.CaptureFixture[str]) -> None:
    ActiveTopic.objects.create(connector="b c", topic="payroll", since_ms=5)
    assert cli.main(["topics", "list"]) == 0
    shown = capsys.readouterr().out
    assert "orders" in shown
    assert "b c" in shown
    assert cli.main(["topics", "records", "orders", "--where", "value.n > 1", "--uncommitted", "--offset", "3"]) == 0
    assert "waiting" in capsys.readouterr().out
    (asked,) = [each for kind, _, each in two.asked if kind == "records"]
    assert (asked["where"], asked["committed_only"], asked["start"]["value"]) == ("value.n > 1", False, 3)
    assert cli.main(["topics", "origin", "orders", "0", "9", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"]["connector"] == "team-a"
