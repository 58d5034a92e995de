"""Starts DltSource tasks in this process."""

from ringfence.connectors.builtin.dlt_source.task import DltSourceTask
from tests.connectors.fakes import FakeContext, FakeOffsets


class Commits:
    """A transaction context that only counts."""

    count = 0

    def commit_transaction(self, record: object = None) -> None:
        self.count += 1

    def abort_transaction(self, record: object = None) -> None:
        raise AssertionError


def start(config: dict[str, str], offsets: FakeOffsets) -> DltSourceTask:
    task = DltSourceTask()
    task.context = FakeContext(offsets)
    task.context.transaction_context = Commits()
    task.start(config)
    return task
