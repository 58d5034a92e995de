"""Requests that get lost or come late join and end no later transaction of a task (invariant 11).

That the rules are needed is shown by the simulation (`tests/fencing/transactions`), where each is left out once.
"""

from collections.abc import Callable, Iterator

import pytest

from ringfence.connectors.api import SourceRecord
from tests.guarantees.late import LateTask
from tests.guarantees.stage import PARTITION, Counting, Listening, Script, Stage
from tests.support.proxy import Api, Fate, Proxied, Trap
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

Scene = Callable[[LateTask], None]


class Unwanted(Counting):
    """Its records are never to be seen: none of its transactions is committed."""

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(PARTITION, {"next": number + 1}, self.topic, b"-1")


def explode(task: Counting) -> None:
    raise RuntimeError("the plugin gives up")


def late_amid_a_later_one(task: LateTask, trap: Trap, *, reads_on: bool) -> Callable[[Counting], None]:
    """Inside of `poll`: the request comes late, behind some records of a later transaction."""

    def before_poll(plugin: Counting) -> None:
        # A task that wants to hear of commits has none under way inside of `poll`.
        if trap.caught and not task.delivered and task.amid_a_transaction():
            task.deliver(trap)
            if not reads_on:
                plugin.script.limit = plugin.next
        plugin.context.wait(0.005)

    return before_poll


def a_commit_is_sent_again_and_its_first_copy_comes_late(task: LateTask) -> None:
    trap = task.trap(Api.END_TXN, commits=True)
    task.start(Script(before_poll=late_amid_a_later_one(task, trap, reads_on=True)), Listening)
    task.wait_for_delivery()
    task.check_late_end()
    task.finish()


def an_abort_is_sent_again_and_its_first_copy_comes_late(task: LateTask) -> None:
    trap = task.trap(Api.END_TXN, commits=False)

    def before_poll(plugin: Counting) -> None:
        if task.amid_a_transaction():
            explode(plugin)

    assert task.start(Script(before_poll=before_poll), Listening).ended().trace
    trap.wait()
    late = late_amid_a_later_one(task, trap, reads_on=False)
    task.start(Script(before_poll=late), Listening)
    task.wait_for_delivery()
    task.check_late_end()
    task.stage.attempts[-1].run.end()
    task.stage.attempts[-1].ended()


def records_of_an_aborted_transaction_come_late(task: LateTask) -> None:
    trap = task.trap(Api.PRODUCE, times=1000, topic=task.stage.data)

    def before_poll(plugin: Counting) -> None:
        if trap.caught:  # the first record lingers until one of the next goes
            explode(plugin)
        plugin.context.wait(0.005)

    assert task.start(Script(batch=1, before_poll=before_poll), Unwanted).ended().trace
    trap.left = 0
    task.trap(Api.PRODUCE, Fate.PASS, topic=task.stage.data, first=lambda: task.deliver(trap))
    task.start(Script(batch=1, limit=1), Counting)
    task.wait_for_delivery()
    task.stage.attempts[-1].finish_after(1)


def a_commit_is_given_up_and_comes_late(task: LateTask) -> None:
    trap = task.trap(Api.END_TXN, times=1000, commits=True)
    script = Script(before_poll=late_amid_a_later_one(task, trap, reads_on=True))
    task.start(script, Listening)
    eventually(lambda: len(script.instances) >= 2, 40, "the client gave up, and the task starts again")
    trap.left = 0
    task.wait_for_delivery()
    task.check_late_end()
    task.finish()


def records_that_were_sent_again_come_late(task: LateTask) -> None:
    trap = task.trap(Api.PRODUCE, topic=task.stage.data)
    task.start(Script(before_poll=late_amid_a_later_one(task, trap, reads_on=True)), Listening)
    task.wait_for_delivery()
    task.finish()


def partitions_are_added_late(task: LateTask) -> None:
    trap = task.trap(Api.ADD_PARTITIONS, times=2)
    task.start(Script(before_poll=late_amid_a_later_one(task, trap, reads_on=True)), Listening)
    task.wait_for_delivery()
    task.finish()


def partitions_are_added_between_two_transactions(task: LateTask) -> None:
    trap = task.trap(Api.ADD_PARTITIONS, times=2)

    def before_poll(plugin: Counting) -> None:
        if trap.caught and not task.delivered and not task.open_records():
            task.deliver(trap)
        plugin.context.wait(0.005)

    task.start(Script(before_poll=before_poll), Listening)
    task.wait_for_delivery()
    task.finish()


def a_takeover_comes_late_once_more(task: LateTask) -> None:
    """The request by which a producer takes its id: it fences whoever holds the id when it arrives."""
    trap = task.trap(Api.INIT_PRODUCER_ID)
    task.start(Script(before_poll=late_amid_a_later_one(task, trap, reads_on=True)), Listening)
    task.wait_for_delivery()
    task.finish()


def answers_get_lost(task: LateTask) -> None:
    traps = [task.trap(api, Fate.LOSE_ANSWER) for api in (Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS, Api.PRODUCE)]
    traps += [task.trap(Api.END_TXN, Fate.LOSE_ANSWER, commits=True)]
    task.start(Script(), Counting)
    for trap in traps:
        trap.wait()
    task.finish()


def a_commit_is_carried_out_and_nobody_hears_of_it(task: LateTask) -> None:
    trap = task.trap(Api.END_TXN, Fate.LOSE_ANSWER, times=1000, commits=True)
    script = Script()
    task.start(script, Listening)
    eventually(lambda: len(script.instances) >= 2, 40, "the client gave up, and the task starts again")
    assert task.stage.visible()
    trap.left = 0
    task.finish()


SCENES: list[Scene] = [
    a_commit_is_sent_again_and_its_first_copy_comes_late,
    an_abort_is_sent_again_and_its_first_copy_comes_late,
    records_of_an_aborted_transaction_come_late,
    a_commit_is_given_up_and_comes_late,
    a_commit_is_carried_out_and_nobody_hears_of_it,
    records_that_were_sent_again_come_late,
    partitions_are_added_late,
    partitions_are_added_between_two_transactions,
    a_takeover_comes_late_once_more,
    answers_get_lost,
]


@pytest.fixture
def stage(proxied: Proxied, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(proxied.direct, unique("late"))
    yield made
    made.close()


def played(scene: Scene, stage: Stage, proxied: Proxied) -> None:
    task = LateTask(stage, proxied)
    try:
        scene(task)
    finally:
        stage.attempts[-1].run.end()
        stage.attempts[-1].thread.join(30)
        task.close()


@pytest.mark.parametrize("scene", SCENES)
def test_each_record_arrives_once_and_the_offset_agrees(scene: Scene, stage: Stage, proxied: Proxied) -> None:
    played(scene, stage, proxied)
    seen = stage.exact(1)
    assert stage.counted().records == seen > 0
