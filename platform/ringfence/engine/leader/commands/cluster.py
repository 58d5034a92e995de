"""Commands that concern no single connector, and log levels."""

from ringfence.engine.leader import command_plans
from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.leader.commands.command import ActingCommand, WritingCommand, carries_out
from ringfence.fencing.ids import WorkerId
from ringfence.requests import commands
from ringfence.requests.command_answers import Connectors, NewLeader
from ringfence.requests.refusal import Refusal


@carries_out(commands.Ping)
class Ping(ActingCommand[commands.Ping]):
    def act(self) -> Connectors:
        return {"connectors": sum(1 for _ in self.leader.state().existing())}


@carries_out(commands.HandOver)
class HandOver(ActingCommand[commands.HandOver]):
    successor: WorkerId

    def act(self) -> NewLeader:
        self.successor = self.leader.resign()
        return {"leader": self.successor}

    def note(self) -> str:
        return f"{self.successor} leads. {self.request.reason}"


@carries_out(commands.DrainWorker)
class DrainWorker(WritingCommand[commands.DrainWorker]):
    def plan(self) -> Plan:
        worker, drained = WorkerId(self.request.worker), self.request.drained
        incarnations = [member.incarnation for member in self.leader.members if member.worker == worker]
        if not incarnations and drained:
            raise Refusal(404, f"No live worker has the id {worker}: look at the list of workers")
        return command_plans.drain(worker, incarnations[0] if drained else None, self.leader.now_ms())

    def note(self) -> str:
        return f"{self.request.worker}. {self.request.reason}"


@carries_out(commands.SetLogLevel)
class SetLogLevel(WritingCommand[commands.SetLogLevel]):
    def plan(self) -> Plan:
        return command_plans.set_log_level(self.request.logger, self.request.level)


@carries_out(commands.SetConnectorLogLevel)
class SetConnectorLogLevel(WritingCommand[commands.SetConnectorLogLevel]):
    def plan(self) -> Plan:
        return command_plans.set_connector_log_level(self.name, self.request.level, self.request.until_ms)
