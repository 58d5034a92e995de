"""Commands to fence a connector's ids, and to end hanging transactions."""

from ringfence.engine.leader import command_plans
from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.leader.commands.command import ActingCommand, WritingCommand, carries_out
from ringfence.engine.leader.internal_requests import await_fencing_round, check_signature
from ringfence.engine.leader.write_result import WriteResult
from ringfence.engine.queries import hanging_transactions
from ringfence.engine.queries.hanging_transactions import fence_id
from ringfence.fencing.ids import WorkerId
from ringfence.requests import commands
from ringfence.requests.commands import Connectors, FencedIds, HangingTransactions, NewGeneration, NewLeader
from ringfence.requests.request import Refusal


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


@carries_out(commands.Fence)
class Fence(ActingCommand[commands.Fence]):
    def act(self) -> None:
        state = self.leader.state()
        check_signature(self.leader.config.session_keys, state, self.request)
        await_fencing_round(state, self.name, self.leader.await_round)


@carries_out(commands.FenceNow)
class FenceNow(WritingCommand[commands.FenceNow]):
    def plan(self) -> Plan:
        while self.leader.write(command_plans.fence_ahead(self.name)).offset >= 0:
            pass  # one slice after the other; other commands are carried out in between
        return command_plans.fence_now(self.name)

    def value(self, result: WriteResult) -> NewGeneration:
        return {"generation": result.state.connector(self.name).generation}

    def awaits_round(self) -> bool:
        return self.request.wait


@carries_out(commands.FenceId)
class FenceId(ActingCommand[commands.FenceId]):
    def act(self) -> FencedIds:
        return {"fenced": fence_id(self.leader.state(), self.name, self.request.id, self.leader.config)}

    def note(self) -> str:
        return f"{self.request.id}: {self.request.reason}"


@carries_out(commands.EndHanging)
class EndHanging(ActingCommand[commands.EndHanging]):
    def act(self) -> HangingTransactions:
        return {"ended": hanging_transactions.end(self.leader.state(), self.request, self.leader.config)}

    def note(self) -> str:
        return f"{self.request.topic}-{self.request.partition}: {self.request.reason}"


@carries_out(commands.RetryRound)
class RetryRound(ActingCommand[commands.RetryRound]):
    def act(self) -> None:
        self.leader.retry_round(self.name)
