"""A long offsets topic makes the same rows folded as record by record."""

from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.projection.models import Minute, RecordTotals, SourceOffset
from ringfence.projection.offset_rows import Backlog
from ringfence.projection.projector import Projection
from tests.support import database
from tests.support.projections import project, running
from tests.support.topics import Topic

MINUTE_MS = 60_000


def long_topic() -> Topic:
    """Two attempts of a task over three minutes, a deleted offset, a key spelled twice, and keys of nobody's."""
    topic = Topic()
    for number in range(600):
        attempt, done = (1, number + 1) if number < 400 else (2, number - 399)
        told = AttemptCounts(0, 3, attempt, RecordCounts(done * 10, done // 7)) if number % 3 else None
        topic.offset("c", {"file": f"f{number % 4}"}, {"at": number}, told, 1_000 + number * MINUTE_MS // 200)
    topic.offset("c", {"file": "f1"}, None)
    topic.raw(b'["c", {"file" : "f2"}]', b'{"at":9000}')
    topic.raw(b"else", b"{}")
    topic.raw(None, b"{}")
    return topic


def rows() -> tuple[object, ...]:
    offsets = sorted(SourceOffset.objects.values_list("connector", "partition", "offset", "updated_ms"))
    totals = list(RecordTotals.objects.values_list("connector", "task", "records", "skipped", "attempts"))
    minutes = sorted(Minute.objects.values_list("connector", "minute", "records"))
    return offsets, totals, minutes


def test_folded_it_makes_the_same_rows() -> None:
    topic = long_topic()
    running(1)
    project("offsets", topic)
    expected = rows()
    assert len(expected[0]) == 3  # type: ignore[arg-type]
    database.empty()
    running(1)
    backlog = Backlog()
    for at in range(0, len(topic.records), 50):
        backlog.add(topic.records[at : at + 50], 0.0)
    folded, _ = backlog.take(1_000, 0.0)
    assert len(folded) < 40, "of 604 records"
    assert not backlog
    Projection("offsets", "offsets-topic", "id-1").apply(folded, topic.end)
    assert rows() == expected


def test_in_slices_it_makes_the_same_rows_wherever_it_is_interrupted() -> None:
    topic = long_topic()
    running(1)
    project("offsets", topic)
    expected = rows()
    for limit in (1, 7, 30):
        for last in range(1, 6):
            database.empty()
            running(1)
            write_in_slices(topic, limit, last)
            write_in_slices(topic, limit, 1_000)
            assert rows() == expected


def write_in_slices(topic: Topic, limit: int, slices: int) -> None:
    """A projector that goes on at the stored position, and is killed after so many transactions."""
    projection, backlog = Projection("offsets", "offsets-topic", "id-1"), Backlog()
    backlog.add(topic.records[projection.start.get(0, 0) :], 0.0)
    while backlog and slices:
        folded, reached = backlog.take(limit, 0.0)
        assert len(folded) <= limit
        assert backlog.is_due(0.0, more=True) is backlog.is_taken_in_part is bool(backlog)
        projection.apply(folded, reached if backlog else topic.end)
        slices -= 1


def test_it_is_written_in_time() -> None:
    backlog, topic = Backlog(), long_topic()
    assert not backlog.is_due(1e9, more=False), "there is nothing"
    backlog.add(topic.records[:10], 100.0)
    backlog.add(topic.records[10:20], 109.0)
    assert not backlog.is_due(109.0, more=True)
    assert backlog.is_due(110.5, more=True)
    many = Topic()
    for number in range(60_000):
        many.raw(b"%d" % number, b"{}")
    backlog.take(1_000, 110.5)
    backlog.add(many.records, 200.0)
    assert backlog.is_due(200.0, more=True), "memory is bounded"


def test_many_small_transactions_are_written_four_times_a_second() -> None:
    backlog, topic, written = Backlog(), long_topic(), list[float]()
    for number, record in enumerate(topic.records[:300]):
        now = 50.0 + number / 100
        backlog.add([record], now)
        if backlog.is_due(now, more=False):
            backlog.take(1_000, now)
            written.append(now)
    assert written[0] == 50.0, "the first one at once"
    assert len(written) == 12
    assert backlog.is_due(53.0, more=False), "the last ones, although no other record follows"
