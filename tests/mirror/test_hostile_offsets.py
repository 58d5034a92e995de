"""What one tenant writes into the offsets topic, which all connectors share, stops nobody else."""

import json
import time

import pytest
from django.db import OperationalError

from ringfence.access.principal import Verb
from ringfence.audit.trail import facts
from ringfence.fencing.errors import Invalid
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.offsets.record_counts import HEADER, decode
from ringfence.fencing.offsets.source_offsets import (
    SourceOffsets,
    connector_of,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    may_concern,
)
from ringfence.projection import offset_rows
from ringfence.projection.models import SourceOffset, pack
from ringfence.projection.offset_rows import Backlog
from ringfence.projection.projector import Projection, Rows
from tests.support.projections import running
from tests.support.topics import Topic

C = ConnectorName("c")
NUMBERS = {"task": 0, "generation": 1, "attempt": 1, "records": 5, "skipped": 0, "dead_letters": 0}


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def committed() -> dict[str, str]:
    return dict(SourceOffset.objects.values_list("connector", "offset"))


HOSTILE = {
    "deep offset": (b'["x",{"p":1}]', nested(1100)),
    "offset as deep as JSON allows": (b'["x",{"p":1}]', nested(960)),
    "deep partition": (b'["x",' + nested(1100) + b"]", b"{}"),
    "partition as deep as JSON allows": (b'["x",' + nested(960) + b"]", b"{}"),
    "half a surrogate pair as a name": (b'["\\ud800",{}]', b"{}"),
    "brackets": (b'["x",' + b"[" * 500_000, b"{}"),
    "a large offset": (b'["x",{"p":1}]', b'{"a":"' + b"a" * (2 << 20) + b'"}'),
    "digits": (b'["x",{"p":1}]', b'{"a":' + b"9" * 100_000 + b"}"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_projection_goes_on_behind_any_record(kind: str) -> None:
    running(1)
    topic = Topic()
    topic.raw(*HOSTILE[kind])
    topic.offset("c", {"p": 1}, {"n": 7})
    Projection("offsets", "offsets-topic", "id-1").apply(topic.records, topic.end)
    assert committed() == {"c": '{"n":7}'}


@pytest.mark.parametrize("count", [2**70, 2**63, 10**4000, -1, 1.5, True])
def test_impossible_counts_are_not_added_up(count: object) -> None:
    header = json.dumps({**NUMBERS, "records": count}).encode()
    assert decode([(HEADER, header)]) is None
    assert decode([(HEADER, nested(1100))]) is None


def test_a_record_that_cannot_be_written_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason may be: the next defect of that kind, too, must not stop all tenants' pages."""
    running(1)
    write = offset_rows.write

    def fails(records: list[object]) -> set[str]:
        if any(b"poison" in (record.key or b"") for record in records):  # type: ignore[attr-defined]
            raise OverflowError("Python int too large to convert to SQLite INTEGER")
        return write(records)  # type: ignore[arg-type]

    projection = Projection("offsets", "offsets-topic", "id-1")
    monkeypatch.setattr("ringfence.projection.projector._ROWS", {"offsets": offset_rows_with(fails)})
    topic = Topic()
    for number in range(20):
        topic.offset("poison" if number == 13 else f"c{number}", {"p": 1}, {"n": number})
    projection.apply(topic.records, topic.end)
    assert len(committed()) == 19
    assert Projection("offsets", "offsets-topic", "id-1").start == topic.end


def test_a_database_that_does_not_write_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    running(1)

    def fails(_records: object) -> set[str]:
        raise OperationalError("database is locked")

    projection = Projection("offsets", "offsets-topic", "id-1")
    monkeypatch.setattr("ringfence.projection.projector._ROWS", {"offsets": offset_rows_with(fails)})
    topic = Topic()
    topic.offset("c", {"p": 1}, {"n": 1})
    with pytest.raises(OperationalError):
        projection.apply(topic.records, topic.end)
    assert Projection("offsets", "offsets-topic", "id-1").start == {}


def offset_rows_with(write: object) -> Rows:
    return Rows(write, offset_rows.forget)  # type: ignore[arg-type]


def test_large_records_are_written_in_time() -> None:
    backlog, topic = Backlog(), Topic()
    for number in range(20):
        topic.raw(b'["c",{"p":%d}]' % number, b'{"a":"' + b"a" * (1 << 20) + b'"}')
    backlog.add(topic.records[:3], 100.0)
    assert not backlog.is_due(100.1, more=True)
    backlog.add(topic.records[3:], 100.1)
    assert backlog.is_due(100.2, more=True), "20 MiB do not wait for 50,000 of their kind"
    backlog.take(1_000, 100.2)
    backlog.add(topic.records[:3], 101.0)
    assert not backlog.is_due(101.1, more=True)


@pytest.mark.parametrize("depth", [101, 960, 5000])
def test_a_task_does_not_commit_what_others_cannot_read(depth: int) -> None:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"a": value}
    with pytest.raises(Invalid, match="100 levels"):
        encode_value(value)
    with pytest.raises(Invalid, match="100 levels"):
        encode_key(C, value)


@pytest.mark.parametrize("depth", [101, 990, 5000])
def test_what_is_nested_too_deeply_is_no_offset(depth: int) -> None:
    assert decode_value(nested(depth)) is None
    assert decode_key(b'["c",' + nested(depth) + b"]") is None
    assert decode_value(nested(90)) is not None


def test_other_connectors_keys_are_not_parsed() -> None:
    """A key with an escape may be anybody's: to know, the first string of it is enough."""
    key = b'["x\\u0041", {"c":[' + b"[]," * 300_000 + b"[]]}]"
    test, offsets = may_concern(C), SourceOffsets(C)
    began = time.process_time()
    for _ in range(50):
        assert not test(key)
        assert not offsets.put(key, b"{}")
        assert connector_of(key) == "xA"
    assert time.process_time() - began < 1.0, "parsing one of them as a whole takes 0.05 s"


def test_a_connector_with_too_many_offsets_is_refused_by_a_worker() -> None:
    offsets = SourceOffsets(C, most_bytes=1 << 20)
    for _ in range(5_000):
        offsets.put(encode_key(C, {"p": 1}), b'{"n":1}')  # the newest counts, not the sum
    records = [LogRecord(0, n, encode_key(C, {"p": n}), b'{"n":1}', 0) for n in range(5_000)]
    with pytest.raises(Invalid, match=r"connector\.offsets\.max\.bytes"):
        offsets.take(records)
    offsets = SourceOffsets(C, most_bytes=1 << 20)
    with pytest.raises(Invalid):
        offsets.put(encode_key(C, {"p": 1}), b'{"a":[' + b"[]," * 100_000 + b"[]]}")


def test_pages_and_audit_do_not_read_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    running(1)
    monkeypatch.setattr(offset_rows, "MOST_CHARACTERS", 10_000)
    SourceOffset.objects.create(connector="c", partition=pack({"p": 1}), offset=pack({"a": "a" * 5_000}))
    assert len(offset_rows.read("c")) == 1
    SourceOffset.objects.create(connector="c", partition=pack({"p": 2}), offset=pack({"a": "a" * 5_000}))
    with pytest.raises(offset_rows.TooManyOffsets, match="2 source offsets"):
        offset_rows.read("c")
    assert facts(Verb.OFFSETS, "c").display == {"count": 2}
