"""One short story for each rule: it ends badly without the rule, and well with it."""

from collections.abc import Callable

import pytest

from ringfence.fencing.ids import TaskId, task_transactional_id
from tests.fencing.model.attempt import Attempt
from tests.fencing.model.cluster import Cluster, running, without
from tests.fencing.model.kafka import Fate
from tests.fencing.model.world import GROUP, C, OffsetRecord, Rules, Violation

FAR = 20
"""Steps that carry an attempt through a start, or through several transactions."""
BEFORE_ITS_INIT = 2


def hold(cluster: Cluster, attempt: Attempt, log: str) -> None:
    """Freeze the attempt when it has written to this log, before it commits."""
    for _ in range(FAR):
        entries = cluster.world.kafka.logs[log].entries
        before = len(entries)
        attempt.advance(1)
        if len(entries) > before and entries[-1].transaction.fate is Fate.OPEN:
            attempt.frozen = True
            return
    raise AssertionError(f"{attempt} writes nothing to the {log} log")


def an_open_transaction_of_another_task_hides_ones_own_offsets(rules: Rules) -> None:
    cluster = running(rules, 2)
    hold(cluster, cluster.attempt(1), "offsets")
    cluster.settle(2)
    cluster.attempt(0).kill()
    cluster.lose(TaskId(C, 0))
    cluster.settle()
    cluster.come_to_rest()


def the_older_attempt_commits_between_a_look_at_the_end_and_the_init(rules: Rules) -> None:
    cluster = running(rules)
    old = cluster.attempt(0)
    old.frozen = True
    cluster.trap = BEFORE_ITS_INIT
    cluster.lose(TaskId(C, 0))
    cluster.settle(3)
    old.advance(FAR)
    cluster.attempt(0).frozen = False
    cluster.come_to_rest()


def a_zombie_of_the_only_task_wakes_after_a_reset(rules: Rules) -> None:
    cluster = running(rules)
    zombie = cluster.attempt(0)
    hold(cluster, zombie, "data")
    cluster.command("stop")
    cluster.settle()
    cluster.command("reset")
    cluster.settle()
    zombie.advance(FAR)
    cluster.come_to_rest()


def a_round_ends_after_the_next_generation_was_committed(rules: Rules) -> None:
    cluster = running(rules)
    cluster.command("configure", 1)
    cluster.settle(1)
    cluster.command("configure", 3)
    cluster.settle()
    zombie = cluster.attempt(1)
    hold(cluster, zombie, "data")
    cluster.command("configure", 1)
    cluster.settle()
    zombie.advance(FAR)
    cluster.come_to_rest()


def a_zombie_outlives_the_deletion_of_its_connector(rules: Rules) -> None:
    cluster = running(rules, 2)
    zombie = cluster.attempt(1)
    hold(cluster, zombie, "data")
    cluster.command("delete")
    cluster.settle(1)
    cluster.command("create", 1)
    cluster.settle()
    zombie.advance(FAR)
    cluster.come_to_rest()


def a_start_of_the_last_generation_ends_after_the_round(rules: Rules) -> None:
    cluster = running(rules, 3)
    cluster.trap = BEFORE_ITS_INIT
    cluster.lose(TaskId(C, 1))
    cluster.settle(2)
    late = cluster.attempt(1)
    cluster.command("configure", 1)
    cluster.settle()
    for _ in range(3):
        late.advance(FAR)
        cluster.settle(1, late=True)
    cluster.come_to_rest()


def an_attempt_starts_after_its_successor(rules: Rules) -> None:
    cluster = running(rules)
    cluster.trap = BEFORE_ITS_INIT
    cluster.lose(TaskId(C, 0))
    cluster.settle(2)
    late = cluster.attempt(0)
    cluster.lose(TaskId(C, 0))
    cluster.settle()
    late.advance(FAR)
    cluster.come_to_rest()


def the_leader_freezes_in_a_reset_and_another_resumes_the_connector(rules: Rules) -> None:
    cluster = running(rules)
    cluster.command("stop")
    cluster.settle()
    cluster.take_over("reset", "resume", tasks=1, reached=2, rest=FAR)
    cluster.come_to_rest()


def offsets_are_reset_before_the_round_is_over(rules: Rules) -> None:
    cluster = running(rules)
    zombie = cluster.attempt(0)
    hold(cluster, zombie, "data")
    for command in ("stop", "reset"):
        cluster.command(command)
        cluster.leaders[0].advance(FAR)
        cluster.world.kafka.write_markers()
    zombie.advance(FAR)
    cluster.come_to_rest()


def a_late_request_opens_what_no_coordinator_knows(rules: Rules) -> None:
    cluster = running(rules)
    cluster.attempt(0).die_late("data")
    cluster.lose(TaskId(C, 0))
    cluster.settle()
    cluster.come_to_rest()


def a_late_offset_of_a_former_task_holds_everybody_up(rules: Rules) -> None:
    """Of a task that the connector has no more: nobody takes its id, so nobody ends what hangs of it."""
    cluster = running(rules, 2)
    cluster.command("configure", 1)
    cluster.settle()
    cluster.world.kafka.arrive_late(task_transactional_id(GROUP, TaskId(C, 1)), "offsets", OffsetRecord(1, 1000))
    cluster.lose(TaskId(C, 0))
    cluster.settle()
    cluster.come_to_rest(everything_ends=False)


def a_task_fails_for_good_with_a_transaction_open(rules: Rules) -> None:
    cluster = running(rules)
    hold(cluster, cluster.attempt(0), "offsets")
    cluster.come_to_rest()


STORIES: list[tuple[str, Callable[[Rules], None]]] = [
    ("uncommitted_end", an_open_transaction_of_another_task_hides_ones_own_offsets),
    ("end_after_init", the_older_attempt_commits_between_a_look_at_the_end_and_the_init),
    ("always_fence", a_zombie_of_the_only_task_wakes_after_a_reset),
    ("count_names_generation", a_round_ends_after_the_next_generation_was_committed),
    ("delete_keeps_count", a_zombie_outlives_the_deletion_of_its_connector),
    ("check_after_init", a_start_of_the_last_generation_ends_after_the_round),
    ("placement_attempts", an_attempt_starts_after_its_successor),
    ("init_before_offsets", the_older_attempt_commits_between_a_look_at_the_end_and_the_init),
    ("one_leader", the_leader_freezes_in_a_reset_and_another_resumes_the_connector),
    ("reset_waits_for_round", offsets_are_reset_before_the_round_is_over),
    ("end_leftovers", a_late_request_opens_what_no_coordinator_knows),
    ("read_raw", a_late_offset_of_a_former_task_holds_everybody_up),
    ("fence_abandoned", a_task_fails_for_good_with_a_transaction_open),
]


@pytest.mark.parametrize("rule, story", STORIES, ids=[rule for rule, _ in STORIES])
def test_a_story_ends_badly_without_its_rule_and_well_with_it(rule: str, story: Callable[[Rules], None]) -> None:
    story(Rules())
    with pytest.raises(Violation):
        story(without(rule))


def test_a_stopped_connector_that_is_paused_and_resumed_has_tasks_again() -> None:
    cluster = running(Rules(), 2)
    for command in ("stop", "pause", "resume"):
        cluster.command(command)
        cluster.settle()
    cluster.come_to_rest(everything_ends=False)
    assert cluster.attempts


def test_a_running_connector_makes_progress_and_a_stopped_one_none() -> None:
    cluster = running(Rules(), 3)
    before = dict(cluster.world.counts)
    cluster.settle()
    assert all(count > before[partition] for partition, count in cluster.world.counts.items())
    cluster.command("stop")
    cluster.settle()
    stopped = dict(cluster.world.counts)
    cluster.settle()
    assert cluster.world.counts == stopped
    assert not cluster.attempts
