"""The checker is shown to fail: the same crash with transactions, and with a plain producer in their place."""

from collections.abc import Callable

import pytest

from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.client import TransactionalClient
from tests.guarantees.stage import Counting, Script, Stage
from tests.support.untransactional import Untransactional


def plain(spec: TaskSpec, timeout_ms: int) -> TransactionalClient:
    return Untransactional(spec.connection)


def crash_and_go_on(stage: Stage, new_producer: Callable[[TaskSpec, int], TransactionalClient] | None) -> None:
    """An attempt that dies with records sent and their offset not yet, and the next one, which reads on."""

    def explode(task: Counting) -> None:
        if task.polls == 10:
            raise RuntimeError("the process dies here")

    config = {
        "topic": stage.data,
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "200000",
    }
    stage.configure(config)
    stage.count()
    stage.start(Script(before_poll=explode), config, new_producer=new_producer).ended()
    stage.start(Script(limit=1000), {**config}, attempt=2, new_producer=new_producer)
    stage.attempts[-1].finish_after(1000)


def test_with_transactions_a_crash_leaves_each_record_once(stage: Stage) -> None:
    crash_and_go_on(stage, None)
    assert stage.exact(1000) == 1000


def test_without_them_the_checker_finds_records_twice(stage: Stage) -> None:
    crash_and_go_on(stage, plain)
    with pytest.raises(AssertionError, match="missing or twice"):
        stage.exact(1000)
    assert set(range(1000)) <= set(stage.visible())
