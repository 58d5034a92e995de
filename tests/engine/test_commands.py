"""What each command writes, and when it is refused. Pure: no broker."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ringfence.engine.leader.commands import Configure, ConfigureTogether, Delete, FenceNow, Pause, RestartTask, Stop
from ringfence.engine.leader.commands.command import Plan, WriteResult
from ringfence.engine.leader.commands.lifecycle import plan_restart, plan_resume
from ringfence.engine.leader.commands.offsets import plan_alteration
from ringfence.engine.leader.commands.saving import (
    Prepared,
    SavedOne,
    plan_change,
    plan_creation,
    plan_together,
    within,
)
from ringfence.engine.leader.task_slices import plan_tasks
from ringfence.engine.plugins.errors import PluginError
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.reconcile import forget
from ringfence.fencing.leader.term import TopicRecord
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    TombstoneRecord,
)
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import FAILED, State, StatusState, TaskStatus
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.quota import Quota
from ringfence.requests.request import Refusal

NAME = ConnectorName("flights")
CONFIG = {"connector.class": "FileStreamSource", "file": "/data", "topic": "t"}
TASKS = [{"file": "/data"}]


def written(state: ClusterState, plan: Plan) -> tuple[ClusterState, list[ConfigRecord | TopicRecord]]:
    """The state after the plan's records, and the records."""
    records = list(plan(state))
    for record in records:
        if not isinstance(record, TopicRecord):
            state = apply(state, state.end, record)
    return state, records


def after(*plans: Plan) -> ClusterState:
    state = ClusterState()
    for plan in plans:
        state, _ = written(state, plan)
    return state


def fenced(state: ClusterState, elsewhere: bool | None = False) -> ClusterState:
    """The state after the round that is due. elsewhere: whether there were offsets outside of the worker's topic."""
    commit = state.connector(NAME).commit
    assert commit is not None
    return apply(state, state.end, TaskCountRecord(NAME, commit.tasks, commit.generation, elsewhere=elsewhere))


def placed(state: ClusterState, tasks: Sequence[int] = (0,)) -> ClusterState:
    generation = state.connector(NAME).generation
    assert generation is not None
    for task in tasks:
        record = PlacementRecord(TaskId(NAME, task), WorkerId("w"), Incarnation("i"), 1, generation)
        state = apply(state, state.end, record)
    return state


CREATED = plan_creation(NAME, CONFIG, TargetState.RUNNING, TASKS)


def test_several_are_written_together_and_one_that_is_refused_keeps_none_of_the_others_from_it() -> None:
    """Each plan sees what those before it write: the quota of two is for all of them."""
    quota = Quota(2, 1000, 1_000_000)

    def prepared(name: str, user: str = "") -> Prepared:
        target = ConnectorName(name)
        grant = TopicGrantRecord(target, (("*",),), user) if user else None
        plan = plan_creation(target, CONFIG, TargetState.RUNNING, TASKS, grant)
        return Prepared(Configure(name, CONFIG), {}, within(plan, user, quota, target, CONFIG) if user else plan)

    all_of_them = [prepared("a", "ann"), prepared("flights"), prepared("b", "ann"), prepared("c", "ann"), prepared("d")]
    before = after(CREATED)
    state, records = written(before, lambda state: plan_together(state, all_of_them))
    assert [each.refusal and each.refusal.status for each in all_of_them] == [None, 409, None, 403, None]
    assert [each.name for each in state.existing()] == ["flights", "a", "b", "d"]
    assert all(each.startable for each in state.existing())
    generations = [each.commit.generation for each in state.existing() if each.commit is not None]
    assert len(generations) == 4
    assert generations == sorted(set(generations))
    again, _ = written(before, lambda state: plan_together(state, all_of_them))
    assert again == state, "an attempt to write that is repeated has no other result"
    assert len(records) == 2 * 4 + 3


class Context:
    """What several configurations are saved with: plugins that make a task, and a leader that writes, or does not."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.refusal = refusal
        self.now = after(CREATED)
        self.account = "ann"
        self.events: list[tuple[object, ...]] = []
        self.discarded: list[str] = []
        self.started: list[str] = []
        self.reporter = SimpleNamespace(
            event=lambda _type, name, **fields: self.events.append((name, fields["outcome"], fields["user"]))
        )
        instances = SimpleNamespace(
            discard=self.discarded.append, mark_started=lambda name, _offset: self.started.append(name)
        )
        self.leader = SimpleNamespace(state=lambda: self.now, instances=instances, wake=lambda: None)

    def fork(self) -> "Context":
        return self

    def read_offsets_ahead(self, *_: object) -> None: ...

    def look_up_version(self, *_: object) -> None: ...

    def validate(self, config: Mapping[str, str], *, java: bool) -> dict[str, object]:
        if config.get("file") == "broken":
            raise PluginError("The plugin is broken")
        if config.get("file") == "leaderless":
            raise Refusal(409, "It does not lead", passing=True)
        error = {"definition": {"name": "file"}, "value": {"errors": ["is missing"]}}
        return {"configs": [] if "file" in config else [error], "error_count": int("file" not in config)}

    def make_tasks(self, *_: object) -> list[dict[str, str]]:
        return TASKS

    def write(self, plan: Plan) -> WriteResult:
        if self.refusal is not None:
            raise self.refusal
        self.now, records = written(self.now, plan)
        return WriteResult(self.now, self.now.end - 1 if records else -1)


SEVERAL = ConfigureTogether(
    [
        Configure(name, config, create=True).to_wire()
        for name, config in (
            ("flights", CONFIG),
            ("new", CONFIG),
            ("wrong", {"topic": "t"}),
            ("bad", {"file": "broken"}),
        )
    ]
)


def test_of_several_each_is_answered_and_reported_for_itself() -> None:
    context = Context()
    outcome = SEVERAL.run(cast(Any, context), lambda _: None)
    same, new, wrong, bad = cast(list[SavedOne], outcome.value)
    assert (same["saved"]["created"], same["saved"]["changed"]) == (False, False)
    assert (new["saved"]["created"], new["saved"]["tasks"]) == (True, 1)
    assert wrong["saved"]["invalid"] == {"errors": ["is missing"], "count": 1}
    assert bad["refused"]["message"] == "The plugin is broken"
    assert outcome.offset == context.now.end - 1
    assert context.started == ["flights", "new"]
    assert context.events == [("flights", "done", "ann"), ("new", "done", "ann"), ("bad", "refused", "ann")]


@pytest.mark.parametrize("passing", [True, False], ids=["it does not lead", "its time is over"])
def test_what_a_leader_does_not_write_is_asked_for_again_or_refused_for_each(passing: bool) -> None:
    refusal = Refusal(409 if passing else 500, "no", passing=passing)
    context = Context(refusal)
    if passing:
        with pytest.raises(Refusal) as raised:
            SEVERAL.run(cast(Any, context), lambda _: None)
        assert raised.value is refusal
        assert context.events == []
    else:
        outcome = SEVERAL.run(cast(Any, context), lambda _: None)
        answers = cast(list[SavedOne], outcome.value)
        assert [each.get("refused", {}).get("status") for each in answers] == [500, 500, None, 500]
    assert context.discarded == ["flights", "new"]
    assert context.started == []


def test_nothing_is_written_if_the_worker_does_not_lead_any_more_while_it_prepares() -> None:
    context = Context()
    gone = Configure("gone", {"file": "leaderless"}, create=True).to_wire()
    with pytest.raises(Refusal, match="It does not lead"):
        ConfigureTogether([*SEVERAL.each, gone]).run(cast(Any, context), lambda _: None)
    assert context.now == after(CREATED)
    assert context.discarded == ["flights", "new"]


def test_a_new_connector_its_tasks_and_their_commit_are_written_together_and_wait_for_their_round() -> None:
    state, records = written(ClusterState(), CREATED)
    assert records == [ConnectorRecord(NAME, CONFIG), TaskRecord(TaskId(NAME, 0), TASKS[0]), CommitRecord(NAME, 1)]
    connector = state.connector(NAME)
    assert connector.startable
    assert connector.round_pending
    assert not connector.runnable
    assert fenced(state).connector(NAME).runnable


def test_a_second_connector_of_the_same_name_is_refused_with_409() -> None:
    with pytest.raises(Refusal, match="already exists") as refused:
        CREATED(after(CREATED))
    assert refused.value.status == 409


def test_a_connector_whose_plugin_fails_is_stored_without_tasks_and_asked_again_later() -> None:
    state, records = written(ClusterState(), plan_creation(NAME, CONFIG, TargetState.RUNNING, None))
    assert records == [ConnectorRecord(NAME, CONFIG)]
    assert state.connector(NAME).tasks_stale


def test_a_connector_created_stopped_has_an_empty_generation() -> None:
    state, records = written(ClusterState(), plan_creation(NAME, CONFIG, TargetState.STOPPED, None))
    assert records[0] == TargetStateRecord(NAME, TargetState.STOPPED)
    assert records[-1] == CommitRecord(NAME, 0)
    assert not state.connector(NAME).tasks_stale


def test_the_same_configuration_again_writes_nothing() -> None:
    assert plan_change(NAME, CONFIG, TASKS, None)(after(CREATED)) == []


def test_another_configuration_is_a_new_generation() -> None:
    before = after(CREATED)
    state, _ = written(before, plan_change(NAME, {**CONFIG, "topic": "u"}, TASKS * 2, None))
    assert state.connector(NAME).generation != before.connector(NAME).generation
    assert state.connector(NAME).round_pending
    assert sorted(state.connector(NAME).tasks) == [0, 1]


def test_a_change_made_from_an_old_version_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        plan_change(NAME, {**CONFIG, "topic": "u"}, TASKS, expected=99)(after(CREATED))
    assert (refused.value.status, refused.value.retry) == (409, True)


def test_pause_and_resume_keep_the_generation() -> None:
    before = after(CREATED)
    paused, _ = written(before, Pause(NAME).records)
    assert paused.connector(NAME).target is TargetState.PAUSED
    resumed, records = written(paused, plan_resume(NAME, None))
    assert records == [TargetStateRecord(NAME, TargetState.RUNNING)]
    assert resumed.connector(NAME).generation == before.connector(NAME).generation


def test_a_stop_is_an_empty_generation_and_a_resume_a_full_one() -> None:
    stopped, _ = written(after(CREATED), Stop(NAME).records)
    assert stopped.connector(NAME).commit is not None
    assert stopped.connector(NAME).tasks == {}
    assert Stop(NAME).records(stopped) == []
    resumed, _ = written(stopped, plan_resume(NAME, TASKS))
    assert sorted(resumed.connector(NAME).tasks) == [0]
    asked_later, _ = written(stopped, plan_resume(NAME, None))
    assert asked_later.connector(NAME).tasks_stale


def test_a_deleted_connector_keeps_what_is_needed_to_fence_its_last_tasks() -> None:
    state = fenced(after(CREATED))
    deleted, _ = written(state, Delete(NAME).records)
    assert NAME not in deleted
    assert deleted.connector(NAME).round_pending
    assert deleted.connector(NAME).count is not None
    assert deleted.connector(NAME).count.tasks == 1  # type: ignore[union-attr]
    again, _ = written(deleted, CREATED)
    assert again.connector(NAME).target is TargetState.RUNNING
    assert not again.connector(NAME).runnable


def test_a_deletion_waits_for_no_round_where_a_stop_has_fenced_all() -> None:
    stopping, _ = written(fenced(after(CREATED)), Stop(NAME).records)
    assert CommitRecord(NAME, 0) in Delete(NAME).records(stopping), "its round has only begun"
    stopped = fenced(stopping)
    deleted, records = written(stopped, Delete(NAME).records)
    assert records == [TargetStateRecord(NAME, None), ConnectorRecord(NAME, None)]
    assert NAME not in deleted
    assert not deleted.connector(NAME).round_pending
    removed = {record.to_key() for record in forget(deleted) if isinstance(record, TombstoneRecord)}
    assert removed == {"commit-flights", "tasks-count-flights", "tasks-fencing-flights"}


@pytest.mark.parametrize("elsewhere", [True, None])
def test_a_deletion_has_a_round_where_offsets_may_be_altered_in_another_topic(elsewhere: bool | None) -> None:
    stopped = fenced(written(fenced(after(CREATED)), Stop(NAME).records)[0], elsewhere)
    deleted, records = written(stopped, Delete(NAME).records)
    assert records[0] == CommitRecord(NAME, 0)
    assert deleted.connector(NAME).round_pending


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Pause(NAME).records, "Unknown connector flights"),
        (plan_resume(NAME, None), "Unknown connector flights"),
        (Stop(NAME).records, "Unknown connector flights"),
        (Delete(NAME).records, "Connector flights not found"),
        (plan_restart(NAME, True, False, StatusState()), "Unknown connector: flights"),
        (RestartTask(NAME, 0).plan_for(None), "Unknown connector: flights"),
        (plan_change(NAME, CONFIG, TASKS, None), "Connector flights not found"),
    ],
)
def test_an_unknown_connector_is_a_404_in_kafka_connects_words(plan: Plan, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        plan(ClusterState())
    assert (refused.value.status, refused.value.message) == (404, message)


def test_a_restart_with_tasks_is_the_next_attempt_of_each_in_the_same_generation() -> None:
    state = placed(fenced(after(plan_creation(NAME, CONFIG, TargetState.RUNNING, TASKS * 2))), (0, 1))
    records = plan_restart(NAME, True, False, StatusState())(state)
    assert [(r.task.task, r.attempt, r.generation) for r in records if isinstance(r, PlacementRecord)] == [
        (0, 2, state.connector(NAME).generation),
        (1, 2, state.connector(NAME).generation),
    ]


def test_a_restart_of_the_failed_ones_leaves_the_others_alone() -> None:
    state = placed(fenced(after(plan_creation(NAME, CONFIG, TargetState.RUNNING, TASKS * 2))), (0, 1))
    generation = state.connector(NAME).generation or Generation(-1)
    failed = TaskStatus(
        TaskId(NAME, 1), State.FAILED, WorkerId("w"), generation, 1, Incarnation("i"), "trace", True, FAILED
    )
    status = StatusState(tasks={failed.task: failed})
    records = plan_restart(NAME, True, True, status)(state)
    assert [r.task.task for r in records if isinstance(r, PlacementRecord)] == [1]


def test_an_unknown_task_is_a_404() -> None:
    with pytest.raises(Refusal, match="Unknown task: flights-7") as refused:
        RestartTask(NAME, 7).plan_for(None)(after(CREATED))
    assert refused.value.status == 404


def test_a_restart_of_a_task_whose_connector_was_changed_meanwhile_is_a_409() -> None:
    first = placed(fenced(after(CREATED)))
    seen = first.connector(NAME).generation
    restart = RestartTask(NAME, 0).plan_for(seen)
    assert [type(record) for record in restart(first)] == [PlacementRecord]
    changed, _ = written(first, plan_change(NAME, {**CONFIG, "new": "1"}, TASKS, None))
    waiting, _ = written(first, plan_change(NAME, {**CONFIG, "new": "1"}, None, None))
    for state in (placed(fenced(changed)), waiting):
        with pytest.raises(Refusal, match="stale configuration") as refused:
            restart(state)
        assert (refused.value.status, refused.value.retry) == (409, True)
    stopped, _ = written(first, Stop(NAME).records)
    with pytest.raises(Refusal, match="Unknown task: flights-0") as refused:
        restart(stopped)
    assert refused.value.status == 404


def test_a_restart_by_hand_begins_the_count_of_automatic_ones_anew() -> None:
    state = fenced(after(CREATED))
    generation = state.connector(NAME).generation or Generation(-1)
    record = PlacementRecord(TaskId(NAME, 0), WorkerId("w"), Incarnation("i"), 4, generation, restarts=3)
    state = apply(state, state.end, record)
    status = StatusState()
    for plan in (RestartTask(NAME, 0).plan_for(generation), plan_restart(NAME, True, False, status)):
        (again,) = plan(state)
        assert isinstance(again, PlacementRecord)
        assert (again.attempt, again.restarts) == (5, 0)


def test_offsets_move_only_while_stopped_and_after_the_round() -> None:
    plan = plan_alteration(NAME, [({"filename": "/data"}, {"position": 0})], SourceOffsets(NAME), "offsets")
    running = fenced(after(CREATED))
    with pytest.raises(Refusal, match="STOPPED") as refused:
        plan(running)
    assert refused.value.status == 400
    stopped, _ = written(running, Stop(NAME).records)
    with pytest.raises(Refusal, match="still being fenced") as refused:
        plan(stopped)
    assert (refused.value.status, refused.value.retry) == (409, True)
    records = plan(fenced(stopped))
    assert TopicRecord("offsets", b'["flights",{"filename":"/data"}]', b'{"position":0}') in records
    assert any(isinstance(record, TargetStateRecord) for record in records)


def test_tasks_that_are_the_same_as_before_make_no_new_generation() -> None:
    state = after(CREATED)
    offset = state.connector(NAME).config_offset
    assert plan_tasks(NAME, offset, TASKS)(state) == []
    assert plan_tasks(NAME, offset, TASKS * 2)(state)[-1] == CommitRecord(NAME, 2)


def test_tasks_made_from_an_older_configuration_are_not_written() -> None:
    state = after(CREATED)
    assert plan_tasks(NAME, state.connector(NAME).config_offset - 1, TASKS * 2)(state) == []


def test_fence_now_makes_the_same_tasks_a_new_generation_whose_round_is_due() -> None:
    before = fenced(after(CREATED))
    state, records = written(before, FenceNow(NAME, "").records)
    assert records == [TaskRecord(TaskId(NAME, 0), TASKS[0]), CommitRecord(NAME, 1)]
    assert state.connector(NAME).round_pending
    assert state.connector(NAME).generation != before.connector(NAME).generation
    with pytest.raises(Refusal) as missing:
        FenceNow(ConnectorName("x"), "").records(before)
    assert missing.value.status == 404
    stale = after(plan_creation(NAME, CONFIG, TargetState.RUNNING, None))
    with pytest.raises(Refusal) as refused:
        FenceNow(NAME, "").records(stale)
    assert refused.value.status == 409
