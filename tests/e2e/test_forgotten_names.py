"""A deleted connector leaves nothing in the config topic, and its name can be used again."""

from collections.abc import Callable

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.topic_log import TopicLog
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.waiting import eventually

Make = Callable[..., Flow]


def kept(up: Up, name: str) -> set[str]:
    """The keys about a connector that compaction would keep."""
    newest: dict[str, bytes | None] = {}
    log = TopicLog(up.connection, "connect-configs")
    try:
        for record in log.read_to_end(Deadline.after(30)):
            newest[(record.key or b"").decode()] = record.value
    finally:
        log.close()
    return {key for key, value in newest.items() if name in key and value is not None}


@pytest.mark.thorough
def test_of_a_deleted_connector(platform: Up, flow: Make) -> None:
    one = flow(tasks=2)
    assert {f"commit-{one.name}", f"tasks-count-{one.name}", f"task-{one.name}-1"} <= kept(platform, one.name)
    one.delete()
    eventually(lambda: not kept(platform, one.name), 20, lambda: kept(platform, one.name), pause=0.2)
    one.begin_counts()
    one.create()  # its offsets are still there
    one.settle()
