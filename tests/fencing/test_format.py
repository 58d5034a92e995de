"""Which versions may take part in a cluster: new records come after the last old worker, and an old one stays out."""

from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import decode, encode
from ringfence.fencing.topics.config_records.format import (
    FORMAT,
    OLDEST,
    UNWRITTEN,
    FormatRecord,
    may_write,
    next_format,
    refuse_old,
)
from tests.support.cluster_states import fold

formats = st.integers(1, 5)


def test_a_new_cluster_gets_the_leaders_format() -> None:
    record = next_format(UNWRITTEN, [FORMAT], FORMAT, OLDEST)
    assert (record.format, record.oldest) == (FORMAT, OLDEST)
    assert fold([record]).format == record
    assert next_format(record, [FORMAT, FORMAT], FORMAT, OLDEST) == record, "once"


def test_the_format_rises_when_the_last_worker_is_replaced() -> None:
    old = FormatRecord(1, 1)
    assert next_format(old, [2, 1], 2, 2) == old, "one could not read it"
    assert next_format(old, [], 2, 2) == old, "nobody is known yet"
    assert next_format(old, [2, 2], 2, 2) == FormatRecord(2, 2)


def test_nothing_lowers_it() -> None:
    """A leader of the version before leads again, while it still may."""
    assert next_format(FormatRecord(2, 1), [1, 1], 1, 1) == FormatRecord(2, 1)


@given(formats, formats, st.lists(formats), formats, formats)
def test_a_worker_that_takes_part_is_never_shut_out(
    format_: int, oldest: int, workers: list[int], own: int, own_oldest: int
) -> None:
    record = FormatRecord(format_, min(oldest, format_))
    after = next_format(record, workers, own, min(own_oldest, own))
    assert after.format >= record.format
    assert after.oldest >= record.oldest
    assert after.oldest <= after.format
    for worker in workers:
        if not refuse_old(record, worker):
            assert not refuse_old(after, worker)


def test_a_worker_that_is_too_old_says_so() -> None:
    assert refuse_old(UNWRITTEN, 1) == refuse_old(FormatRecord(3, 2), 2) == ""
    message = refuse_old(FormatRecord(3, 3), 2)
    assert "knows format 2 of the config topic, and the cluster needs 3 at least" in message


def test_records_of_a_format_are_written_once_it_is_the_clusters() -> None:
    assert not may_write(ClusterState(), 1)
    assert may_write(fold([FormatRecord(2, 1)]), 2)
    assert not may_write(fold([FormatRecord(2, 1)]), 3)


def test_a_tombstone_is_as_if_it_were_never_written() -> None:
    key, _ = encode(FormatRecord(2, 2))
    assert decode(key, None) == UNWRITTEN
    assert decode(b"ringfence-formats", b"{}") != UNWRITTEN
