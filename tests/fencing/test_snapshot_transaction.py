"""When a snapshot holds its transaction open; pure."""

import pytest

from ringfence.connectors.api import ConfigException, SourceRecord
from ringfence.connectors.api.records import MixedBatch
from ringfence.fencing.errors import Invalid
from ringfence.fencing.task.boundaries import Boundaries, SnapshotEndings, is_of_a_snapshot
from ringfence.fencing.task.transaction_context import Ending


@pytest.mark.parametrize(
    ("offset", "under_way"),
    [
        ({"snapshot": "INITIAL", "lsn": 1}, True),
        ({"snapshot": True, "pos": 4}, True),
        ({"snapshot": "true", "pos": 4, "snapshot_completed": False}, True),
        ({"snapshot": "INITIAL", "last_snapshot_record": True, "lsn": 1}, False),
        ({"snapshot": True, "snapshot_completed": True}, False),
        ({"lsn": 2}, False),
        ({"snapshot": "false"}, False),
        ({"snapshot": None}, False),
        (None, False),
    ],
)
def test_debezium_says_in_the_offset_whether_a_snapshot_is_under_way(offset: object, under_way: bool) -> None:
    assert is_of_a_snapshot(offset) is under_way  # type: ignore[arg-type]


def mixed(*offsets: tuple[str, bool]) -> MixedBatch:
    pairs = [({"server": server}, {"snapshot": "INITIAL"} if snapshot else {"lsn": 1}) for server, snapshot in offsets]
    return MixedBatch(pairs, "t", [b"v"])


def test_half_a_snapshot_is_never_committed() -> None:
    endings = SnapshotEndings(900, lambda: 1.0)
    assert not endings.holds()
    endings.parts(mixed(("a", True), ("b", True)))
    assert endings.holds()
    assert endings.at_the_end() is None
    endings.parts(mixed(("a", False)))
    assert endings.holds(), "that of b goes on"
    endings.parts([SourceRecord({"server": "b"}, {"lsn": 3}, "t", b"v")])
    assert not endings.holds()
    assert endings.at_the_end() is Ending.COMMIT


def test_a_snapshot_that_takes_too_long_says_what_to_raise() -> None:
    age = [10.0]
    endings = SnapshotEndings(900, lambda: age[0])
    endings.parts(mixed(("a", True)))
    assert endings.holds()
    age[0] = 880
    with pytest.raises(ConfigException, match=r"not ended within snapshot\.transaction\.timeout\.ms=900000"):
        endings.holds()
    endings.parts(mixed(("a", False)))
    assert not endings.holds(), "its last record has come"


def test_the_transaction_timeout_is_the_snapshots() -> None:
    on = {"snapshot.transaction": "true"}
    assert Boundaries.of({}, 1000).transaction_timeout_ms(60_000) == 60_000
    assert Boundaries.of(on, 1000).transaction_timeout_ms(60_000) == 900_000
    longer = {**on, "transaction.boundary": "interval", "snapshot.transaction.timeout.ms": "3600000"}
    assert Boundaries.of(longer, 1000).transaction_timeout_ms(60_000) == 3_600_000
    with pytest.raises(Invalid, match=r"transaction\.boundary=connector"):
        Boundaries.of({**on, "transaction.boundary": "connector"}, 1000)
