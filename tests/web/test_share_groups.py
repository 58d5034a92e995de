"""The pages about share groups: what they show, for whom, and while Kafka is away."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from ringfence.api import share_groups
from ringfence.dispatch import Refusal
from ringfence.fencing.share.ledger import State
from ringfence.fencing.share.offset_ranges import Ranges
from ringfence.history.models import ShareGroupAnswer
from ringfence.projection.models import Task
from ringfence.web.share_groups.pages import Piece, draw, lay_over, of_ledger, read_pieces
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.projections import project
from tests.support.topics import Topic

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
    assert "All of them are done in the ledger." in shown
    assert "The broker persists no locks" in shown
    assert "Only our tasks know theirs, and they hold none" in shown
    other = text(client.get("/ui/share-groups/payments"))
    assert "Ledger" not in other
    assert "done in the ledger" not in other


def test_what_tasks_hold_is_shown_as_what_only_they_know(queue: FakeLeader, client: Client) -> None:
    client.get("/ui/share-groups")
    queue.start("team-a")
    generation = Task.objects.get(connector="team-a").generation
    held = [["t", 0, 112, 115], ["t", 0, 125, 129], ["t", 0, "x", 1], "nonsense"]
    events = Topic()
    events.event(
        type="progress", connector="team-a", task=0, generation=generation, attempt=1, time_ms=9_000, held=held
    )
    project("events", events)
    page = client.get("/ui/share-groups/g-team-a")
    shown = page.content.decode()
    strip = "Offsets 100 to 129: 5 acknowledged, 2 archived, 14 available, 9 acquired"
    assert strip in shown, re.findall('Offsets [^<"]*', shown)
    assert "112 to 115: acquired" in shown
    assert "9 acquired (known to our tasks only)" in text(page)
    assert "acquired, known to our tasks only" in text(page)
    assert "known to our tasks only" not in text(client.get("/ui/share-groups/payments"))
    # Those of a task that does not run any more say nothing.
    Task.objects.filter(connector="team-a").update(state="UNASSIGNED")
    assert "they hold none" in text(client.get("/ui/share-groups/g-team-a"))


def test_many_partitions_are_shown_page_by_page_with_the_counts_of_all(queue: FakeLeader, client: Client) -> None:
    queue.share_partitions = 45
    client.get("/ui/share-groups")
    first, last = (client.get(f"/ui/share-groups/payments?page={number}").content.decode() for number in (1, 3))
    assert "Page 1 of 3" in " ".join(first.split())
    assert ("t-19<" in first, "t-20<" in first) == (True, False)
    assert ("t-39<" in last, "t-40<" in last, "t-44<" in last) == (False, True, True)
    assert last.count("Offsets 100 to 119: 5 acknowledged, 2 archived, 13 available") >= 5
    for shown in (first, last):
        assert "Lag of all 45 partitions: 900." in " ".join(shown.split())


def test_what_members_hold_is_laid_over_what_is_persisted() -> None:
    pieces = [Piece(0, 9, "acknowledged", 1), Piece(10, 19, "available", 1)]
    told = [
        (one.first, one.last, one.state) for one in lay_over(pieces, Ranges([(5, 12), (15, 15), (18, 22), (25, 26)]))
    ]
    assert told == [
        (0, 9, "acknowledged"),
        (10, 12, "acquired"),
        (13, 14, "available"),
        (15, 15, "acquired"),
        (16, 17, "available"),
        (18, 19, "acquired"),
        (20, 22, "acquired"),
        (23, 24, "available"),
        (25, 26, "acquired"),
    ]
    assert [(one.first, one.last) for one in lay_over([], Ranges([(7, 9)]))] == [(7, 9)]


def test_archived_records_are_processed_now_from_the_console(queue: FakeLeader, client: Client) -> None:
    client.get("/ui/share-groups")
    shown = client.get("/ui/share-groups/g-team-a")
    assert "/process/" not in shown.content.decode()  # 105 and 106 are done
    address = "/ui/share-groups/g-team-a/process"
    page = text(client.get(address))
    # Of 100, 101 and 105 to 114 the ledger has all but 101 to 103 and 110 on; the group begins at 102.
    assert re.search(r"6\D{1,40}offsets that are not done", page), page
    done = client.post(address, {"reason": "now"})
    assert "Requested: 6 offsets" in text(done)
    record = [one for one in queue.config.records if one.key == b"sweep-team-a"][-1]
    assert json.loads(record.value or b"")["places"] == [["id-of-t", 0, 101, 101], ["id-of-t", 0, 110, 114]]
    foreign = text(client.get("/ui/share-groups/payments/process"))
    assert "No connector reads share group payments" in foreign


def test_a_timeline_is_replayed_step_by_step(queue: FakeLeader, client: Client) -> None:
    client.get("/ui/share-groups")
    path = "/ui/share-groups/payments/timeline?topic=t&partition=0"
    newest, first = client.get(path), client.get(f"{path}&step=1", headers=PART)
    assert "Step 2 of 2" in text(newest)
    assert "100 to 104: acknowledged, delivered 1 time" in text(newest)
    assert "Step 1 of 2" in text(first)
    assert "<html" not in first.content.decode()
    for part in ("data-live", "data-own-query", "sse:changed"):
        assert part in newest.content.decode()
    assert "Follow the newest" in text(first)
    assert "Follow the newest" not in text(newest)
    assert client.get("/ui/share-groups/payments/timeline?topic=t&partition=x").status_code == 404


@pytest.mark.parametrize("path", ["/ui/share-groups", "/ui/share-groups/g-team-a"])
def test_with_kafka_away_the_pages_show_what_was_seen_last(queue: FakeLeader, client: Client, path: str) -> None:
    client.get("/ui/share-groups")
    before = text(client.get(path))
    forget_freshness()
    queue.refusal = Refusal(503, "No broker answers.", retry=True)
    away = client.get(path)
    shown = text(away)
    assert away.status_code == 200
    assert "This data is as of" in shown
    assert "No broker answers." in shown
    assert "data-old" in away.content.decode()
    assert ("101" in shown) == ("101" in before)


def test_nothing_was_heard_yet(leader: FakeLeader, client: Client) -> None:
    leader.refusal = Refusal(503, "No broker answers.", retry=True)
    assert "Nothing is known about share groups yet" in text(client.get("/ui/share-groups"))
    assert client.get("/ui/share-groups/payments").status_code == 404


def test_a_group_that_is_gone_is_a_404(queue: FakeLeader, client: Client) -> None:
    assert client.get("/ui/share-groups/no-such-group").status_code == 404


def test_answers_of_a_moment_ago_are_shared(queue: FakeLeader, client: Client) -> None:
    for _ in range(3):
        share_groups.look_at_list(1.0)
    assert [kind for kind, _, _ in queue.asked if kind == "share_groups"] == ["share_groups"]


def test_a_strip_keeps_single_records_visible() -> None:
    ranges = [[0, 4, "acknowledged", 1], [5, 5, "archived", 1], [6, 6, "archived", 5]]
    assert [piece.word for piece in read_pieces(ranges, ranges[2:])] == ["acknowledged", "passed over", "archived"]
    assert [piece.word for piece in read_pieces(ranges[:2], [])] == ["acknowledged", "passed over"], "a marker"
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
    address = "/ui/share-groups/payments/alter?to=earliest&topic=t"
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
    assert "app (10.0.0.7)" in text(client.get("/ui/share-groups/busy/delete"))
    assert "must be STOPPED" in text(client.get("/ui/share-groups/g-team-a/delete-offsets?topic=t"))
    assert client.get("/ui/share-groups/payments/alter?to=nowhere").status_code == 404
    assert client.get("/ui/share-groups/payments/alter?to=time&at=2025-03-01T12:00:00Z").status_code == 200
    answers = {"setting": "share.record.lock.duration.ms", "value": "", "reason": "default"}
    assert client.post("/ui/share-groups/payments/settings", answers).status_code == 200
    assert queue.asked[-1][2]["act"]["settings"] == {"share.record.lock.duration.ms": None}
