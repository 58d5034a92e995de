"""The view of an offsets topic by connector, and what of it travels with an attempt."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import (
    OffsetsSnapshot,
    SourceOffset,
    SourceOffsets,
    canonical,
    decode_key,
    encode_key,
    may_concern,
)
from ringfence.fencing.offsets.view import OffsetIndex

NAMES = st.sampled_from(["c", "c2", 'q"uote', "back\\slash", "zürich", 'a",', "", "\\u0063", "tab\t", "日本"])
VALUES = st.none() | st.integers(0, 9).map(lambda n: b'{"n":%d}' % n)


@st.composite
def keys(draw: st.DrawFn) -> bytes | None:
    """As Kafka Connect writes them, as others space or escape them, and what is no source offset at all."""
    name, partition = draw(NAMES), {"p": draw(st.integers(0, 2))}
    form = draw(st.sampled_from(["connect", "spaced", "escaped", "padded", "utf-16", "strange", "none"]))
    spaced = json.dumps([name, partition], ensure_ascii=False)
    match form:
        case "connect":
            return encode_key(ConnectorName(name), partition)
        case "escaped":
            hexed = "".join(f"\\u{ord(each):04x}" for each in name)
            return f'["{hexed}",{{"p":{partition["p"]}}}]'.encode()
        case "padded":
            return f" {spaced}\n".encode()
        case "utf-16":
            return spaced.encode("utf-16")
        case "strange":
            return draw(st.sampled_from([b"", b'["', b'["c"', b'["c",', b"\xff\xfe", b'["c",{}]x', b"7", b'["c",3]']))
        case "none":
            return None
        case _:
            return spaced.encode()


LOGS = st.lists(st.tuples(keys(), VALUES), max_size=30)


def parsed(name: str, records: list[tuple[bytes | None, bytes | None]]) -> SourceOffsets:
    """Every key parsed as a whole."""
    offsets = SourceOffsets(ConnectorName(name))
    for key, value in records:
        name_and_partition = decode_key(key)
        assert offsets.put(key, value) == (name_and_partition is not None and name_and_partition[0] == name)
    return offsets


def by_partition(offsets: SourceOffsets) -> dict[str, SourceOffset]:
    return {canonical(found.partition): found for found in offsets.all()}


@given(LOGS, NAMES)
def test_a_connectors_part_of_the_index_says_what_all_records_say(
    records: list[tuple[bytes | None, bytes | None]], name: str
) -> None:
    index = OffsetIndex()
    for key, value in records:
        index.put(key, value)
    entries = index.entries(ConnectorName(name))
    assert entries is not None
    snapshot = OffsetsSnapshot(ConnectorName(name), "id", {0: len(records)}, entries)
    travelled = OffsetsSnapshot.from_json(json.loads(json.dumps(snapshot.as_json())))
    assert travelled == snapshot
    assert by_partition(parsed(name, list(travelled.entries))) == by_partition(parsed(name, records))


@given(LOGS, NAMES)
def test_the_cheap_test_passes_every_key_of_the_connector(
    records: list[tuple[bytes | None, bytes | None]], name: str
) -> None:
    test = may_concern(ConnectorName(name))
    assert parsed(name, [each for each in records if test(each[0])]).all() == parsed(name, records).all()


@given(LOGS)
def test_the_size_is_that_of_what_is_held(records: list[tuple[bytes | None, bytes | None]]) -> None:
    index = OffsetIndex()
    for key, value in records:
        index.put(key, value)
    again = OffsetIndex()
    for entries in index._connectors.values():
        for key, held in entries.items():
            again.put(key, held)
    assert (again.size, len(again)) == (index.size, len(index))


def test_a_snapshot_fits_its_own_topic_only_and_no_shorter_one() -> None:
    snapshot = OffsetsSnapshot(ConnectorName("c"), "id", {0: 5, 1: 7}, [])
    assert snapshot.fits("id", {0: 5, 1: 9, 2: 4})
    assert not snapshot.fits("other", {0: 5, 1: 9})
    assert not snapshot.fits("id", {0: 4, 1: 9})
    assert not snapshot.fits("id", {0: 5})


def test_a_snapshot_of_thousands_of_partitions_is_small() -> None:
    name = ConnectorName("files")
    entries = [(encode_key(name, {"filename": f"/data/{n}"}), b'{"position":%d}' % n) for n in range(10_000)]
    snapshot = OffsetsSnapshot(name, "id", {0: 1}, entries)
    assert len(json.dumps(snapshot.as_json())) < snapshot.size / 2


def test_the_largest_connector_gives_way() -> None:
    index = OffsetIndex()
    for number in range(20):
        index.put(encode_key(ConnectorName("large"), {"p": number}), b"{}")
    index.put(encode_key(ConnectorName("small"), {"p": 1}), b"{}")
    assert index.drop_largest() == "large"
    index.put(encode_key(ConnectorName("large"), {"p": 99}), b"{}")
    assert index.entries(ConnectorName("large")) is None
    assert len(index.entries(ConnectorName("small")) or ()) == len(index) == 1
