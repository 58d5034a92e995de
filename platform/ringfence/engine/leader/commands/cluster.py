"""The commands to the cluster: its leader, its workers and its log levels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from ringfence.engine.leader.commands.command import (
    ActingCommand,
    LeaderCommand,
    OnConnector,
    Outcome,
    Plan,
    Records,
    Report,
    WritingCommand,
    require_existing,
)
from ringfence.fencing.ids import WorkerId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import DrainRecord
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.requests.request import Refusal

if TYPE_CHECKING:
    from ringfence.engine.leader.command_service import CommandContext


class Connectors(TypedDict):
    connectors: int


class NewLeader(TypedDict):
    leader: str


@dataclass(frozen=True)
class Ping(ActingCommand[Connectors]):
    name = "ping"
    health = True

    def act(self, context: "CommandContext") -> Connectors:
        return {"connectors": sum(1 for _ in context.leader.state().existing())}


@dataclass(frozen=True)
class HandOver(LeaderCommand[NewLeader]):
    """Have the leader resign."""

    name = "hand_over"
    reason: str

    def run(self, context: "CommandContext", report: Report) -> Outcome:
        successor = context.leader.hand_over.ask(context.leader.members, context.limit)
        outcome = Outcome({"leader": successor}, note=f"{successor} leads. {self.reason}")
        report(outcome)
        return outcome


@dataclass(frozen=True)
class DrainWorker(WritingCommand[None]):
    """Drain a worker's incarnation: it gets no tasks, and gives up those for which others have room.

    drained: false lets it take tasks again.
    """

    name = "drain_worker"
    worker: str
    drained: bool
    reason: str

    def plan(self, context: "CommandContext") -> Plan:
        worker, now_ms = WorkerId(self.worker), context.reporter.now_ms()
        incarnations = [member.incarnation for member in context.leader.members if member.worker == worker]
        if not incarnations and self.drained:
            raise Refusal(404, f"No live worker has the id {worker}: look at the list of workers")
        incarnation = incarnations[0] if self.drained else None

        def plan(state: ClusterState) -> Records:
            return [] if state.drains.get(worker) == incarnation else [DrainRecord(worker, incarnation, now_ms)]

        return plan

    def note(self) -> str:
        return f"{self.worker}. {self.reason}"


@dataclass(frozen=True)
class SetLogLevel(WritingCommand[None]):
    """Set a log level in every process of the cluster (KIP-976)."""

    name = "set_log_level"
    logger: str
    level: str

    def records(self, state: ClusterState) -> Records:
        return [LoggerRecord(self.logger, self.level)]


@dataclass(frozen=True)
class SetConnectorLogLevel(OnConnector, WritingCommand[None]):
    """Set the level at which the connector's tasks publish log lines until `until_ms`; None ends it."""

    name = "set_connector_log_level"
    level: str | None
    until_ms: int = 0

    def records(self, state: ClusterState) -> Records:
        require_existing(state, self.target, f"Connector {self.connector} not found")
        return [ConnectorLevelRecord(self.target, self.level, self.until_ms)]
