"""The base classes of commands on the leader, and the parts of the leader that commands use."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.leader.task_slices import TaskConfigs
from ringfence.engine.leader.write_result import WriteResult
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, WorkerId
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.status import StatusState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.commands import Command, OffsetEntry
from ringfence.requests.question import Json as Validated
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

AnyCommand = TypeVar("AnyCommand", bound=Command[object], covariant=True)
Offsets = Mapping[int, int]
Changes = Sequence[tuple[Partition, Offset | None]]


class LeaderSide(Protocol):
    """The parts of the leader that commands use. Each method may raise `Refusal`."""

    limit: Deadline
    """When the command's sender stops waiting."""

    @property
    def config(self) -> WorkerConfig: ...
    @property
    def members(self) -> list[LiveWorker]: ...
    def state(self) -> ClusterState: ...
    def statuses(self) -> StatusState: ...
    def now_ms(self) -> int: ...
    def write(self, plan: Plan) -> WriteResult: ...
    def wake(self) -> None: ...
    def await_round(self, name: ConnectorName) -> None: ...
    def resign(self) -> WorkerId: ...
    def retry_round(self, name: ConnectorName) -> None: ...
    def validate(self, config: Mapping[str, str], *, java: bool) -> Validated:
        """Return Kafka Connect's validation object. java: whether Java plugins may run for the user."""

    def read_offsets_ahead(self, name: ConnectorName, config: Mapping[str, str]) -> None:
        """Begin to read the offsets that `make_tasks` will need, beside the validation of the configuration."""

    def make_tasks(
        self, name: ConnectorName, config: Mapping[str, str], grant: TopicGrantRecord | None
    ) -> TaskConfigs | None:
        """Return the task configurations; None if the plugin fails, which makes the connector FAILED with the trace.

        grant: the topics that the connector may write to, None for all but internal ones.
        """

    def look_up_version(self, config: Mapping[str, str]) -> None:
        """Look up the version of the connector's plugin for its status, even if no part of it is started."""

    def mark_started(self, name: ConnectorName, config_offset: int) -> None: ...
    def discard_instance(self, name: ConnectorName) -> None: ...
    def mark_restarting(self, name: ConnectorName, tasks: list[int]) -> None: ...
    def restart_instance(self, name: ConnectorName, *, only_failed: bool) -> None: ...
    def forget_topics(self, name: ConnectorName) -> Offsets:
        """Write tombstones for the active topics; return the ends of the status topic after them."""

    def plan_offsets(self, connector: ConnectorState, entries: list[OffsetEntry] | None) -> tuple[Plan, bool]:
        """Return the plan that alters these offsets, or deletes all if there are no entries, and whether the connector
        has checked them.
        """

    def plan_ledger(self, connector: ConnectorState, decide: Callable[[list[SourceOffset]], Changes]) -> Plan:
        """Return the plan of the changes that `decide` derives from the current offsets."""

    def ends_of_offsets(self) -> Offsets: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """value: what its sender gets; offset: the last record in the config topic, -1 for none; note: for the event.

    ends: {role: {partition: end}} of other topics, whose rows the sender waits for, too.
    """

    value: object = None
    offset: int = -1
    note: str = ""
    ends: Mapping[str, Offsets] = field(default_factory=dict)

    def answer(self) -> dict[str, object]:
        """Return the JSON that is sent to the web process."""
        offset = {"offset": self.offset} if self.offset >= 0 else {}
        return {"value": self.value, **offset, **{f"{role}_end": ends for role, ends in self.ends.items()}}


class LeaderCommand(ABC, Generic[AnyCommand]):
    """One command in progress."""

    def __init__(self, request: AnyCommand, leader: LeaderSide) -> None:
        self.request = request
        self.leader = leader

    @property
    def name(self) -> ConnectorName:
        """The connector's name; "" for a command to the cluster."""
        return ConnectorName(self.request.on or "")

    @property
    def connector(self) -> ConnectorState:
        """The connector's current state."""
        return self.leader.state().connector(self.name)

    def note(self) -> str:
        """Return the text of its event in the timeline."""
        return str(getattr(self.request, "reason", ""))

    @abstractmethod
    def run(self, report: Callable[[Outcome], None]) -> Outcome:
        """Carry it out. It calls `report` when it is done, before it waits for anything. Raises `Refusal`."""


class ActingCommand(LeaderCommand[AnyCommand]):
    """A command that writes nothing to the config topic."""

    @abstractmethod
    def act(self) -> object:
        """Act, and return the value for the sender."""

    def run(self, report: Callable[[Outcome], None]) -> Outcome:
        value = self.act()
        outcome = Outcome(value, note=self.note())
        report(outcome)
        return outcome


class WritingCommand(LeaderCommand[AnyCommand]):
    """A command that writes to the config topic."""

    starts: ClassVar[bool] = False
    """Whether it creates tasks: the connector's instance runs with the configuration that was written."""

    @abstractmethod
    def plan(self) -> Plan:
        """Return the plan, a function from the state at the end of the config topic to the records."""

    def value(self, result: WriteResult) -> object:
        """Return the value for the sender."""
        return None

    def after(self) -> Mapping[str, Offsets]:
        """Act after the write. Return the ends of other topics that it has written, by role."""
        return {}

    def awaits_round(self) -> bool:
        """Return whether the sender waits until the old generation can no longer commit."""
        return False

    def run(self, report: Callable[[Outcome], None]) -> Outcome:
        plan = self.plan()
        try:
            result = self.leader.write(plan)
        except Refusal:
            if self.starts:
                self.leader.discard_instance(self.name)
            raise
        now = result.state.connector(self.name)
        if self.starts and now.config is not None and not now.tasks_stale:
            self.leader.mark_started(self.name, now.config_offset)
        self.leader.wake()
        report(Outcome(offset=result.offset, note=self.note()))
        outcome = Outcome(self.value(result), result.offset, ends=self.after())
        if self.awaits_round():
            self.leader.await_round(self.name)
        return outcome


Kind = TypeVar("Kind", bound=LeaderCommand[Command[object]])
_KINDS: Final[dict[type[Command[object]], type[LeaderCommand[Command[object]]]]] = {}


def carries_out(kind: type[Command[object]]) -> Callable[[type[Kind]], type[Kind]]:
    """Register the class that carries out a kind of request."""

    def register(command: type[Kind]) -> type[Kind]:
        _KINDS[kind] = command
        return command

    return register


def command_of(request: Command[object], leader: LeaderSide) -> LeaderCommand[Command[object]]:
    """Return the command that carries out a request."""
    return _KINDS[type(request)](request, leader)
