"""Offsets topics are created so that compaction keeps up, and preflight names those where it does not."""

import pytest

from ringfence.engine.preflight.broker_checks import check_segments
from ringfence.engine.preflight.subject import Result
from ringfence.fencing.offsets.stores import COMPACTED_SOON, offsets_topic_spec


def test_an_offsets_topic_is_compacted_soon_unless_the_worker_says_otherwise() -> None:
    assert dict(offsets_topic_spec("t", {}).config or {}) == {**COMPACTED_SOON, "cleanup.policy": "compact"}
    own = offsets_topic_spec("t", {"offset.storage.segment.ms": "5", "offset.storage.cleanup.policy": "delete"})
    assert dict(own.config or {}) == {**COMPACTED_SOON, "segment.ms": "5", "cleanup.policy": "compact"}


@pytest.mark.parametrize("segment_ms,warned", [(None, False), ("3600000", False), ("604800000", True)])
def test_kafkas_own_segments_of_a_week_are_warned_of_and_refuse_nothing(segment_ms: str | None, warned: bool) -> None:
    found = check_segments("connect-offsets", segment_ms)
    assert (found is not None) is warned
    if found is not None:
        assert found.result is Result.FAILED
        assert not found.refuses
        assert "7 days" in found.message
        assert "segment.ms=3600000" in found.remedy
