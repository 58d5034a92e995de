"""The commands that save a connector's configuration, and the check of an account's quota in their plans."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.sdk.worker_limits import MAX_TASKS
from ringfence.engine.leader import task_slices
from ringfence.engine.leader.commands.command import (
    CHANGED,
    LeaderCommand,
    OnConnector,
    Outcome,
    Plan,
    Records,
    Report,
    WriteResult,
    WritingCommand,
    require_existing,
)
from ringfence.engine.leader.task_slices import TaskConfigs
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState, Fold
from ringfence.fencing.topics.config_records import ConfigRecord, ConnectorRecord, TargetStateRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.tally import Tally
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.quota import NO_LIMITS, QUOTAS, Quota
from ringfence.requests.request import Refusal, always

if TYPE_CHECKING:
    from ringfence.engine.leader.command_service import CommandContext
    from ringfence.engine.questions import Json as Validated

Config = Mapping[str, str]

_INITIAL: Final = {"RUNNING": TargetState.RUNNING, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}


class InvalidConfig(TypedDict):
    """errors: one text for each, which may quote values of secret settings; count: as the plugin counts them."""

    errors: list[str]
    count: int


class CreationResult(TypedDict, total=False):
    """changed: false if the configuration was the same already; tasks: how many tasks the connector has now; secrets:
    the settings that its plugin declares as secret; invalid: why nothing was saved.
    """

    created: bool
    changed: bool
    tasks: int
    secrets: list[str]
    invalid: InvalidConfig


def validation_result(validation: "Validated") -> CreationResult:
    """Return what whoever saves a configuration needs of Kafka Connect's validation object."""
    entries = validation.get("configs", [])
    keys = (entry["definition"] for entry in entries)
    result: CreationResult = {"secrets": [str(key["name"]) for key in keys if key.get("type") == "PASSWORD"]}
    if count := int(validation.get("error_count") or 0):
        errors = [str(error) for entry in entries for error in entry["value"].get("errors", [])]
        result["invalid"] = {"errors": errors, "count": count}
    return result


@dataclass(frozen=True)
class _Saving(OnConnector, WritingCommand[CreationResult]):
    """The leader validates the configuration before it saves it; see `CreationResult.invalid`.

    topic_grant: of the account that saves it, as a config record; quota: of that account, None for no limit; java:
    whether it may have Java plugins run.
    """

    starts = True
    config: Config
    topic_grant: Mapping[str, object] | None = None
    quota: Mapping[str, object] | None = None
    java: bool = always(False)

    def run(self, context: "CommandContext", report: Report) -> Outcome:
        """Save it, unless the answer is that it is invalid."""
        answer, plan = self.prepare(context)
        if plan is None:
            return Outcome(answer)
        result = self.write(context, plan, report)
        return Outcome(self.complete(answer, result), result.offset)

    def prepare(self, context: "CommandContext") -> tuple[CreationResult, Plan | None]:
        """Validate it, and make its tasks. Return the answer so far, and the plan; None if it is invalid. Raises
        `Refusal`.
        """
        if self.makes_tasks(context.leader.state().connector(self.target)):
            context.read_offsets_ahead(self.target, self.config)
        answer = validation_result(context.validate(self.config, java=self.java))
        if "invalid" in answer:
            return answer, None
        now = context.leader.state().connector(self.target)
        if now.config is None:
            plan = self.plan_creation(context)
            answer["created"] = True
        else:
            plan = self.plan_change(context, now)
            answer |= {"created": False, "changed": self.changes(now)}
        account, quota = self._quota()
        if quota is not None:
            plan = within(plan, account, quota, self.target, self.config)
        return answer, plan

    def complete(self, answer: CreationResult, result: WriteResult) -> CreationResult:
        """Return the answer after the write."""
        commit = result.state.connector(self.target).commit
        return {**answer, "tasks": 0 if commit is None else commit.tasks}

    @abstractmethod
    def initial(self) -> TargetState:
        """Return the state in which it is created."""

    @abstractmethod
    def makes_tasks(self, now: ConnectorState) -> bool:
        """Return whether the plugin is to make tasks for the configuration. now: the connector as it is."""

    def changes(self, now: ConnectorState) -> bool:
        """Return whether this is another configuration than the connector has now."""
        return now.config != self.config or now.unreadable is not None

    def plan_creation(self, context: "CommandContext") -> Plan:
        """Return the plan that creates the connector. Raises `Refusal`."""
        self.check_quota(context)
        context.look_up_version(self.config)
        initial, grant = self.initial(), self.grant()
        tasks = None if initial is TargetState.STOPPED else context.make_tasks(self.target, self.config, grant)
        return plan_creation(self.target, self.config, initial, tasks, grant)

    @abstractmethod
    def plan_change(self, context: "CommandContext", now: ConnectorState) -> Plan:
        """Return the plan for a connector that exists. Raises `Refusal`."""

    def grant(self) -> TopicGrantRecord | None:
        return TopicGrantRecord.parse("", self.target, self.topic_grant) if self.topic_grant else None

    def check_quota(self, context: "CommandContext") -> None:
        """Refuse what passes the quota already now, before the plugin makes tasks for it."""
        account, quota = self._quota()
        if quota is not None:
            require(context.leader.state(), account, quota, self.target, self.config)

    def _quota(self) -> tuple[str, Quota | None]:
        grant = self.grant()
        if self.quota is None or grant is None:
            return "", None
        return grant.user, Quota.parse(self.quota)


@dataclass(frozen=True)
class Create(_Saving):
    """initial_state: RUNNING (as None), PAUSED or STOPPED."""

    name = "create"
    initial_state: str | None = always(None)

    def initial(self) -> TargetState:
        return _INITIAL[(self.initial_state or "RUNNING").upper()]

    def makes_tasks(self, now: ConnectorState) -> bool:
        return now.config is None and self.initial() is not TargetState.STOPPED

    def plan_change(self, context: "CommandContext", now: ConnectorState) -> Plan:
        raise Refusal(409, f"Connector {self.connector} already exists")


@dataclass(frozen=True)
class Configure(_Saving):
    """create: create a missing connector; expected: the config offset to replace; if there is a newer one, it
    is a 409.
    """

    name = "configure"
    create: bool = always(False)
    expected: int | None = None

    def initial(self) -> TargetState:
        return TargetState.RUNNING

    def makes_tasks(self, now: ConnectorState) -> bool:
        if now.config is None:
            return self.create
        return self.changes(now) and now.target is not TargetState.STOPPED

    def plan_creation(self, context: "CommandContext") -> Plan:
        if not self.create:
            raise Refusal(404, f"Connector {self.connector} not found")
        return super().plan_creation(context)

    def plan_change(self, context: "CommandContext", now: ConnectorState) -> Plan:
        self.check_quota(context)
        grant = self.grant()
        tasks = context.make_tasks(self.target, self.config, grant) if self.makes_tasks(now) else None
        return plan_change(self.target, self.config, tasks, self.expected, grant)


class SavedOne(TypedDict, total=False):
    """What became of one of several configurations: `saved`, or the `refused` command's answer."""

    saved: CreationResult
    refused: Mapping[str, object]


@dataclass(slots=True)
class Prepared:
    """A command with its answer so far. plan: None if there is nothing to write."""

    command: Configure
    answer: CreationResult
    plan: Plan | None = None
    refusal: Refusal | None = None

    def describe(self, result: WriteResult | None) -> SavedOne:
        """Return what became of it. result: of the write of all of them, None if there was none."""
        if self.refusal is not None:
            return {"refused": self.refusal.answer()}
        if result is None or self.plan is None:
            return {"saved": self.answer}
        return {"saved": self.command.complete(self.answer, result)}


@dataclass(frozen=True)
class ConfigureTogether(LeaderCommand[Sequence[SavedOne]]):
    """Saves several configurations in one transaction, so that their rounds and placements are written together, too.

    each: the fields of a `Configure`. The answer has an entry for each, in this order; one that is refused does not
    keep the others from being saved.
    """

    name = "configure_together"
    each: Sequence[Mapping[str, object]]

    def run(self, context: "CommandContext", report: Report) -> Outcome:
        commands = [Configure.from_wire(each) for each in self.each]
        # One by one: for validations beside each other, the worker would start more plugin processes.
        prepared = [_prepare(each, context.fork()) for each in commands]
        result = self._write(context, prepared)
        _require_leader(prepared)
        for each in prepared:
            if "invalid" not in each.answer:
                _report(context, each, -1 if result is None else result.offset)
        return Outcome([each.describe(result) for each in prepared], -1 if result is None else result.offset)

    def _write(self, context: "CommandContext", prepared: Sequence[Prepared]) -> WriteResult | None:
        """Write the plans, and note the refusal of each that does not fit the state."""
        instances, result = context.leader.instances, None
        due = [each for each in prepared if each.plan is not None]
        try:
            _require_leader(prepared)
            if due:
                result = context.write(lambda state: plan_together(state, due))
        except Refusal as refusal:
            for each in due:
                each.refusal = refusal
        for each in due:
            now = None if result is None else result.state.connector(each.command.target)
            if each.refusal is not None:
                instances.discard(each.command.target)
            elif now is not None and now.config is not None and not now.tasks_stale:
                instances.mark_started(now.name, now.config_offset)
        context.leader.wake()
        return result


def _require_leader(prepared: Iterable[Prepared]) -> None:
    """Raise the refusal of a worker that does not lead any more. Nothing was written, and the sender asks again."""
    for each in prepared:
        if each.refusal is not None and each.refusal.passing:
            raise each.refusal


def _prepare(command: Configure, context: "CommandContext") -> Prepared:
    from ringfence.engine.celery_answers import to_refusal
    from ringfence.engine.plugins.errors import PluginError

    try:
        return Prepared(command, *command.prepare(context))
    except (Refusal, PluginError) as error:
        return Prepared(command, {}, refusal=to_refusal(error))


def _report(context: "CommandContext", prepared: Prepared, offset: int) -> None:
    """Report the outcome as that of a command of its own."""
    refusal = prepared.refusal
    context.reporter.event(
        "command",
        prepared.command.connector,
        kind=Configure.name,
        outcome="done" if refusal is None else "refused",
        message="" if refusal is None else refusal.message,
        offset=offset if refusal is None else -1,
        user=context.account,
    )


def plan_together(state: ClusterState, prepared: Sequence[Prepared]) -> Records:
    """Return the records of all plans, each for the state after those before it; note their refusals."""
    folding, records = Fold(state), list[ConfigRecord]()
    for each in prepared:
        each.refusal = None
        assert each.plan is not None
        try:
            new = each.plan(folding.state)
        except Refusal as refusal:
            each.refusal = refusal
            continue
        for record in new:
            assert isinstance(record, ConfigRecord)  # no plan of a configuration writes to another topic
            folding.apply(state.end + len(records), record)
            records.append(record)
    return records


def _grant_records(connector: ConnectorState, grant: TopicGrantRecord | None) -> list[ConfigRecord]:
    """Return the record of the topics that the connector may write to, if they change. grant: None for all topics."""
    if grant == connector.topic_grant:
        return []
    return [TopicGrantRecord(connector.name, None) if grant is None else grant]


def plan_creation(
    name: ConnectorName,
    config: Config,
    initial: TargetState,
    tasks: TaskConfigs | None,
    grant: TopicGrantRecord | None = None,
) -> Plan:
    """Create a connector. tasks: None if the plugin failed; then the reconcile loop asks it again, as it does for many
    tasks. grant: the topics of the user who creates it, written in the same transaction.
    """

    def plan(state: ClusterState) -> Records:
        if name in state:
            raise Refusal(409, f"Connector {name} already exists")
        target = [TargetStateRecord(name, initial)] if state.connector(name).target is not initial else []
        task_configs = () if initial is TargetState.STOPPED else task_slices.at_once(tasks)
        return [
            *target,
            *_grant_records(state.connector(name), grant),
            ConnectorRecord(name, dict(config)),
            *([] if task_configs is None else task_slices.whole_set(name, task_configs)),
        ]

    return plan


def plan_change(
    name: ConnectorName,
    config: Config,
    tasks: TaskConfigs | None,
    expected: int | None,
    grant: TopicGrantRecord | None = None,
) -> Plan:
    """Change the configuration of a connector. expected: the offset of the configuration to replace, None for any.

    An unchanged configuration restarts nothing: only the grant of the user who saves it is written, which running tasks
    follow.
    """

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Connector {name} not found")
        if expected is not None and connector.config_offset != expected:
            raise Refusal(409, CHANGED, retry=True)
        grant_records = _grant_records(connector, grant)
        if connector.config == config and connector.unreadable is None:
            return grant_records
        task_configs = () if connector.target is TargetState.STOPPED else task_slices.at_once(tasks)
        task_records = [] if task_configs is None else task_slices.whole_set(name, task_configs)
        return [*grant_records, ConnectorRecord(name, dict(config)), *task_records]

    return plan


_OPTIONS: Final = {"connectors": "--connectors", "tasks": "--tasks", "config_bytes": "--config-bytes"}


def usage_of(config: Mapping[str, str], tasks: int = 0) -> Quota:
    """Return what one connector takes. tasks: how many it has now, for a connector that may exceed its `tasks.max`."""
    text = config.get(TASKS_MAX, "1").strip()
    tasks_max = int(text[:10]) if text.isascii() and text.isdigit() else 1
    size = len("".join([*config, *config.values()]).encode())  # one string: thousands are counted where a leader begins
    return Quota(1, max(min(tasks_max, MAX_TASKS), tasks), size)


def _usage_now(connector: ConnectorState) -> Quota:
    return usage_of(connector.config or {}, 0 if connector.commit is None else connector.commit.tasks)


def _measure(connector: ConnectorState) -> Mapping[str, tuple[int, ...]]:
    if connector.config is None:
        return {}
    own = _usage_now(connector)
    return {_owner(connector): (own.connectors, own.tasks, own.config_bytes)}


_usages: Final = Tally(_measure)
"""What each account's connectors take: whoever saves a configuration is not to wait for a count of all of them."""


def usage(state: ClusterState, account: str) -> Quota:
    """Return what the account's connectors take in all."""
    return Quota(*(_usages.sum_of(state, account) or (0, 0, 0)))


def require(state: ClusterState, account: str, quota: Quota, name: ConnectorName, config: Mapping[str, str]) -> None:
    """Raise a `Refusal` with 403 if the account would have more than its quota with this configuration saved.

    What does not grow is never refused: an account may be above a quota that is younger than its connectors.
    """
    before = state.connector(name)
    mine = before.config is not None and _owner(before) == account
    had = _usage_now(before) if mine else Quota(0, 0, 0)
    have, want = usage(state, account), usage_of(config)
    for each, what in QUOTAS.items():
        used, limit = getattr(have, each), getattr(quota, each)
        after = used - getattr(had, each) + getattr(want, each)
        if after > max(limit, used):
            raise Refusal(
                403,
                f"Connector {name} was not saved: account {account} would have {after:,} {what}, uses {used:,}, and "
                f"its quota is {limit:,}. Delete connectors that are not needed, or ask an administrator for a larger "
                f"quota: `ringfence users grant {account} … {_OPTIONS[each]} {after}`, or the console's Grant page.",
            )


def within(plan: Plan, account: str, quota: Quota, name: ConnectorName, config: Mapping[str, str]) -> Plan:
    """Return the plan, refused where the write would pass the quota: two commands at once cannot both have the rest."""

    def plan_and_check(state: ClusterState) -> Records:
        records = plan(state)
        if quota != NO_LIMITS:
            require(state, account, quota, name, config)
        return records

    return plan_and_check


def _owner(connector: ConnectorState) -> str:
    return "" if connector.topic_grant is None else connector.topic_grant.user
