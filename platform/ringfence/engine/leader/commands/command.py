"""The base classes of the commands of web processes to the leader.

A command is one class: the fields that are sent, the plan of its records, what it waits for, and what it does after the
write. A web process makes one and sends it (`dispatch`), and the leader's worker runs it (`command_service`). So these
modules load without Kafka's clients: what needs them is imported where a command runs.

A plan is a pure function, `state -> records`. The leader's term evaluates it at the end of the config topic, in the
transaction that writes the records, and evaluates it again for each retry. It raises `Refusal` if the state does not
allow the change.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import ConfigRecord
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.requests.request import Answer, Command, Refusal

if TYPE_CHECKING:
    from ringfence.engine.leader.command_service import CommandContext
    from ringfence.fencing.leader.term import TopicRecord

Records = Sequence["ConfigRecord | TopicRecord"]
Plan = Callable[[ClusterState], Records]
Offsets = Mapping[int, int]

CHANGED: Final = "The connector's configuration was changed in between: read it again and repeat the request"
RECONFIGURED: Final = (
    "Cannot complete request momentarily due to stale configuration: the connector's tasks are being made again, and "
    "start automatically"
)


def require_existing(state: ClusterState, name: ConnectorName, message: str) -> ConnectorState:
    """Return the connector. Raises `Refusal`, a 404 with this message, if it does not exist."""
    if name not in state:
        raise Refusal(404, message)
    return state.connector(name)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The state after the write of a plan, and the offset of its last record; -1 if there was nothing to write.

    stages: what it consisted of, see `fencing.stages`.
    """

    state: ClusterState
    offset: int
    stages: Mapping[str, float] = field(default_factory=dict)


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


Report = Callable[[Outcome], None]


class LeaderCommand(Command[Answer], ABC):
    """A command that the leader's worker runs."""

    def note(self) -> str:
        """Return the text of its event in the timeline."""
        return str(getattr(self, "reason", ""))

    @abstractmethod
    def run(self, context: "CommandContext", report: Report) -> Outcome:
        """Carry it out. It calls `report` when it is done, before it waits for anything. Raises `Refusal`."""


@dataclass(frozen=True)
class OnConnector:
    """A command's connector."""

    connector: str

    @property
    def on(self) -> str:
        return self.connector

    @property
    def target(self) -> ConnectorName:
        return ConnectorName(self.connector)


class ActingCommand(LeaderCommand[Answer]):
    """A command that writes nothing to the config topic."""

    @abstractmethod
    def act(self, context: "CommandContext") -> Answer:
        """Act, and return the value for the sender."""

    def run(self, context: "CommandContext", report: Report) -> Outcome:
        outcome = Outcome(self.act(context), note=self.note())
        report(outcome)
        return outcome


class WritingCommand(LeaderCommand[Answer]):
    """A command that writes to the config topic. It has `plan`, or `records` if they follow from the state alone."""

    starts: ClassVar[bool] = False
    """Whether it creates tasks: the connector's instance runs with the configuration that was written."""

    def records(self, state: ClusterState) -> Records:
        """Return the records for the state at the end of the config topic."""
        raise NotImplementedError

    def plan(self, context: "CommandContext") -> Plan:
        """Prepare the write, and return its plan."""
        return self.records

    def value(self, result: WriteResult) -> object:
        """Return the value for the sender."""
        return None

    def after(self, context: "CommandContext") -> Mapping[str, Offsets]:
        """Act after the write. Return the ends of other topics that it has written, by role."""
        return {}

    def awaits_round(self) -> bool:
        """Return whether the sender waits until the old generation can no longer commit."""
        return False

    def write(self, context: "CommandContext", plan: Plan, report: Report) -> WriteResult:
        """Write the plan's records, and have the leader look at them."""
        name = ConnectorName(self.on or "")
        try:
            result = context.write(plan)
        except Refusal:
            if self.starts:
                context.leader.instances.discard(name)
            raise
        now = result.state.connector(name)
        if self.starts and now.config is not None and not now.tasks_stale:
            context.leader.instances.mark_started(name, now.config_offset)
        context.leader.wake()
        report(Outcome(offset=result.offset, note=self.note()))
        return result

    def run(self, context: "CommandContext", report: Report) -> Outcome:
        result = self.write(context, self.plan(context), report)
        outcome = Outcome(self.value(result), result.offset, ends=self.after(context))
        if self.awaits_round():
            context.await_round(ConnectorName(self.on or ""))
        return outcome
