"""What every command on the leader is made of: its request, what it uses, what it plans, does after, and waits for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from ringfence.engine.leader.plans import Plan, TaskConfigs
from ringfence.engine.leader.written import Written
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, WorkerId
from ringfence.fencing.leader.assignment import Member
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.status import StatusState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.commands import Command, OffsetEntry
from ringfence.requests.refused import Refused
from ringfence.worker_config import WorkerConfig

Asked = TypeVar("Asked", bound=Command[object], covariant=True)
Offsets = Mapping[int, int]
Changes = Sequence[tuple[Partition, Offset | None]]


class LeaderSide(Protocol):
    """What commands use of the worker that leads. Each method raises `Refused`."""

    limit: Deadline
    """When the command's sender stops waiting."""

    @property
    def config(self) -> WorkerConfig: ...
    @property
    def members(self) -> list[Member]: ...
    def state(self) -> ClusterState: ...
    def statuses(self) -> StatusState: ...
    def now_ms(self) -> int: ...
    def write(self, plan: Plan) -> Written: ...
    def wake(self) -> None: ...
    def await_round(self, name: ConnectorName) -> None: ...
    def resign(self) -> WorkerId: ...
    def retry_round(self, name: ConnectorName) -> None: ...
    def make_tasks(
        self, name: ConnectorName, config: Mapping[str, str], grant: TopicGrantRecord | None
    ) -> TaskConfigs | None:
        """None where the plugin fails: the connector is then FAILED, with the trace.

        grant: the topics that the connector may write to, None for all but internal ones.
        """

    def look_up_version(self, config: Mapping[str, str]) -> None:
        """Of the connector's plugin, for its status, also where nothing of it starts."""

    def mark_started(self, name: ConnectorName, config_offset: int) -> None: ...
    def discard_instance(self, name: ConnectorName) -> None: ...
    def mark_restarting(self, name: ConnectorName, tasks: list[int]) -> None: ...
    def restart_instance(self, name: ConnectorName, *, only_failed: bool) -> None: ...
    def forget_topics(self, name: ConnectorName) -> Offsets:
        """Of the status topic: its ends with the tombstones."""

    def plan_offsets(self, connector: ConnectorState, entries: list[OffsetEntry] | None) -> tuple[Plan, bool]:
        """The write of altered offsets, or where there are no entries of deleted ones; and whether the connector has
        checked them.
        """

    def plan_ledger(self, connector: ConnectorState, decide: Callable[[list[SourceOffset]], Changes]) -> Plan:
        """The write of offsets that are decided from what stands there."""

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
        """The form in which it travels to the web process."""
        offset = {"offset": self.offset} if self.offset >= 0 else {}
        return {"value": self.value, **offset, **{f"{role}_end": ends for role, ends in self.ends.items()}}


class LeaderCommand(ABC, Generic[Asked]):
    """One command under way."""

    def __init__(self, request: Asked, leader: LeaderSide) -> None:
        self.request = request
        self.leader = leader

    @property
    def name(self) -> ConnectorName:
        """The connector's; "" for a command to the cluster."""
        return ConnectorName(self.request.on or "")

    @property
    def connector(self) -> ConnectorState:
        """As it is at this moment."""
        return self.leader.state().connector(self.name)

    def note(self) -> str:
        """What its event in the timeline says."""
        return str(getattr(self.request, "reason", ""))

    @abstractmethod
    def run(self, report: Callable[[Outcome], None]) -> Outcome:
        """Carry it out. `report` is called once it is done, before anything is waited for. Raises `Refused`."""


class ActingCommand(LeaderCommand[Asked]):
    """A command that writes nothing to the config topic."""

    @abstractmethod
    def act(self) -> object:
        """Do it; the value for its sender."""

    def run(self, report: Callable[[Outcome], None]) -> Outcome:
        value = self.act()
        outcome = Outcome(value, note=self.note())
        report(outcome)
        return outcome


class WritingCommand(LeaderCommand[Asked]):
    """A command that writes to the config topic."""

    starts: ClassVar[bool] = False
    """It makes tasks: the connector's instance runs with the configuration that was written."""

    @abstractmethod
    def plan(self) -> Plan:
        """From the state at the end of the config topic to the records."""

    def value(self, written: Written) -> object:
        """What its sender gets."""
        return None

    def after(self) -> Mapping[str, Offsets]:
        """What is done once it is written: the ends of other topics that belong to it, by role."""
        return {}

    def awaits_round(self) -> bool:
        """Whether it is answered only when nothing of the old generation can commit any more."""
        return False

    def run(self, report: Callable[[Outcome], None]) -> Outcome:
        plan = self.plan()
        try:
            written = self.leader.write(plan)
        except Refused:
            if self.starts:
                self.leader.discard_instance(self.name)
            raise
        now = written.state.connector(self.name)
        if self.starts and now.config is not None and not now.tasks_stale:
            self.leader.mark_started(self.name, now.config_offset)
        self.leader.wake()
        report(Outcome(offset=written.offset, note=self.note()))
        outcome = Outcome(self.value(written), written.offset, ends=self.after())
        if self.awaits_round():
            self.leader.await_round(self.name)
        return outcome


Kind = TypeVar("Kind", bound=LeaderCommand[Command[object]])
_KINDS: Final[dict[type[Command[object]], type[LeaderCommand[Command[object]]]]] = {}


def carries_out(kind: type[Command[object]]) -> Callable[[type[Kind]], type[Kind]]:
    """Registers the class of a command."""

    def register(command: type[Kind]) -> type[Kind]:
        _KINDS[kind] = command
        return command

    return register


def command_of(request: Command[object], leader: LeaderSide) -> LeaderCommand[Command[object]]:
    """The command that carries out a request."""
    return _KINDS[type(request)](request, leader)
