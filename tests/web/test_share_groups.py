"""The pages about share groups: what they show, for whom, and while Kafka is away."""

import re
from typing import Any

import pytest
from django.test import Client

from ringfence.api.share_groups import last_seen
from ringfence.dispatch import Refused
from ringfence.fencing.share.ledger_records import State
from ringfence.fencing.share.ranges import Ranges
from ringfence.history.models import ShareGroupAnswer
from ringfence.web.share_groups.strips import Piece, draw, of_ledger
from tests.support.leader import FakeLeader
from tests.support.pages import text

PART = {"HX-Request": "true"}
CONFIG = {"connector.class": "VerifiableSource", "topic": "t"}


@pytest.fixture
def queue(leader: FakeLeader, client: Client) -> FakeLeader:
    body = {"name": "team-a", "config": CONFIG}
    assert client.post("/connectors", body, content_type="application/json").status_code == 201
    partition = {"topic_id": "id-of-t", "partition": 0, "slot": 0}
    leader.offsets.offset("team-a", partition, {"topic": "t", "low": 101, "done": [[104, 109]]})
    leader.project()
    return leader


def forget_freshness() -> None:
    ShareGroupAnswer.objects.update(time_ms=1_000)


def test_the_list_has_connectors_groups_first(queue: FakeLeader, client: Client) -> None:
    shown = text(client.get("/ui/share-groups"))
    assert shown.index("g-team-a") < shown.index("busy")
    assert "team-a" in shown


def test_a_group_shows_the_ledger_beside_what_the_broker_tells(queue: FakeLeader, client: Client) -> None:
    client.get("/ui/share-groups")
    page = client.get("/ui/share-groups/g-team-a")
    shown = text(page)
    assert shown.index("Ledger") < shown.index("Broker")
    # 101 to 119 without 104 to 109.
    assert "Left" in shown
    assert "13" in shown
    assert "Offsets 101 to 109: 3 not done, 6 done" in page.content.decode()
    assert "Offsets 100 to 119: 5 acknowledged, 2 archived, 13 available" in page.content.decode()
    assert "Delivered as often as is allowed, and archived: 105 to 106" in shown
    assert "The ledger has them all as done." in shown
    assert "the broker persists no locks" in shown
    other = text(client.get("/ui/share-groups/payments"))
    assert "Ledger" not in other
    assert "The ledger has them" not in other


def test_a_timeline_is_replayed_step_by_step(queue: FakeLeader, client: Client) -> None:
    client.get("/ui/share-groups")
    path = "/ui/share-groups/payments/timeline?topic=t&partition=0"
    newest, first = client.get(path), client.get(f"{path}&step=1", headers=PART)
    assert "Step 2 of 2" in text(newest)
    assert "100 to 104: acknowledged, delivered 1 time" in text(newest)
    assert "Step 1 of 2" in text(first)
    assert "<html" not in first.content.decode()
    assert client.get("/ui/share-groups/payments/timeline?topic=t&partition=x").status_code == 404


@pytest.mark.parametrize("path", ["/ui/share-groups", "/ui/share-groups/g-team-a"])
def test_with_kafka_away_the_pages_show_what_was_seen_last(queue: FakeLeader, client: Client, path: str) -> None:
    client.get("/ui/share-groups")
    before = text(client.get(path))
    forget_freshness()
    queue.refusal = Refused(503, "No broker answers.", retry=True)
    away = client.get(path)
    shown = text(away)
    assert away.status_code == 200
    assert "This is as of" in shown
    assert "No broker answers." in shown
    assert "data-old" in away.content.decode()
    assert ("101" in shown) == ("101" in before)


def test_nothing_was_heard_yet(leader: FakeLeader, client: Client) -> None:
    leader.refusal = Refused(503, "No broker answers.", retry=True)
    assert "Nothing was heard of share groups yet" in text(client.get("/ui/share-groups"))
    assert client.get("/ui/share-groups/payments").status_code == 404


def test_a_group_that_is_gone_is_a_404(queue: FakeLeader, client: Client) -> None:
    assert client.get("/ui/share-groups/no-such-group").status_code == 404


def test_answers_of_a_moment_ago_are_shared(queue: FakeLeader, client: Client) -> None:
    for _ in range(3):
        last_seen.look_at_list(1.0)
    assert [kind for kind, _, _ in queue.asked if kind == "share_groups"] == ["share_groups"]


def test_a_strip_keeps_single_records_visible() -> None:
    strip = draw([Piece(0, 99_998, "acknowledged", 1), Piece(99_999, 99_999, "archived", 5)])
    assert strip is not None
    assert [float(cell.width) > 2 for cell in strip.cells] == [True, True]
    assert sum(float(cell.width) for cell in strip.cells) == pytest.approx(1000, abs=0.2)
    assert strip.cells[1].piece.title == "99,999: archived, delivered 5 times"
    assert draw([]) is None


def test_a_ledgers_ranges() -> None:
    state = State("t", 10, Ranges([(12, 13), (20, 29)]))
    pieces, cut = of_ledger(state, 3)
    told: list[Any] = [(piece.first, piece.last, piece.state) for piece in pieces]
    assert told == [(10, 11, "open"), (12, 13, "done"), (14, 19, "open")]
    assert cut == 1


def test_the_console_shows_numbers_before_it_moves_a_group(queue: FakeLeader, client: Client) -> None:
    client.get("/ui/share-groups")
    address = "/console/share-groups/payments/alter/?to=earliest&topic=t"
    shown = text(client.get(address))
    assert re.search(r"60\D{1,40}offsets that are processed again", shown)
    assert "t-0, from 100" in shown
    assert not [each for each in queue.asked if "owners" in each[2]]
    refused = client.post(address, {"reason": "again", "confirm": "other"})
    assert refused.status_code == 400
    done = client.post(address, {"reason": "again", "confirm": "payments"})
    assert "60 offsets are processed again" in text(done)
    kind, _, body = queue.asked[-2]
    assert (kind, body["act"]["to"], body["reason"]) == ("share_group", "earliest", "again")
    assert "app (10.0.0.7)" in text(client.get("/console/share-groups/busy/delete/"))
    assert "must be STOPPED" in text(client.get("/console/share-groups/g-team-a/delete-offsets/?topic=t"))
    assert client.get("/console/share-groups/payments/alter/?to=nowhere").status_code == 404
    assert client.get("/console/share-groups/payments/alter/?to=time&at=2025-03-01T12:00:00Z").status_code == 200
    answers = {"setting": "share.record.lock.duration.ms", "value": "", "reason": "default"}
    assert client.post("/console/share-groups/payments/settings/", answers).status_code == 200
    assert queue.asked[-1][2]["act"]["settings"] == {"share.record.lock.duration.ms": None}
