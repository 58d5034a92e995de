"""Commands to alter and reset source offsets (KIP-875), and to forget the active topics (KIP-558)."""

from collections.abc import Callable, Mapping

from ringfence.engine.leader import command_plans
from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.leader.commands.command import LeaderCommand, Offsets, Outcome, WritingCommand, carries_out
from ringfence.engine.leader.share_group_acts import Changes, ShareGroupAct
from ringfence.engine.leader.write_result import WriteResult
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import SourceOffset
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.requests import commands
from ringfence.requests.commands import OffsetCheck, OffsetEntry
from ringfence.requests.request import Refusal


@carries_out(commands.SweepNow)
class SweepNow(WritingCommand[commands.SweepNow]):
    def plan(self) -> Plan:
        value = {"places": [list(place) for place in self.request.places], "time_ms": self.leader.now_ms()}
        record = SweepRequestRecord.parse("", self.name, value)
        assert record is not None
        return command_plans.request_sweep(record)


@carries_out(commands.ActOnShareGroup)
class ActOnShareGroup(LeaderCommand[commands.ActOnShareGroup]):
    def note(self) -> str:
        return f"{self.request.act['kind']} {self.request.group}: {self.request.reason}"

    def run(self, report: Callable[[Outcome], None]) -> Outcome:
        offset, ends = -1, dict[str, Offsets]()

        def write_ledger(
            name: ConnectorName, connector: ConnectorState, decide: Callable[[list[SourceOffset]], Changes]
        ) -> None:
            nonlocal offset
            offset = self.leader.write(self.leader.plan_ledger(connector, decide)).offset
            ends["offsets"] = self.leader.ends_of_offsets()

        act = ShareGroupAct(self.leader.state(), self.request, self.leader.config, self.leader.limit)
        value = act.run(write_ledger)
        report(Outcome(note=self.note()))
        return Outcome(value, offset, ends=ends)


class _Altering(WritingCommand[commands.AlterOffsets | commands.ResetOffsets]):
    checked: bool

    def entries(self) -> list[OffsetEntry] | None:
        """Return the new offsets; None for a reset."""
        return None

    def plan(self) -> Plan:
        connector = self.connector
        if connector.config is None:
            raise Refusal(404, f"Connector {self.name} not found")
        plan, self.checked = self.leader.plan_offsets(connector, self.entries())
        return plan

    def value(self, result: WriteResult) -> OffsetCheck:
        return {"checked": self.checked}

    def after(self) -> Mapping[str, Offsets]:
        return {"offsets": self.leader.ends_of_offsets()}


@carries_out(commands.AlterOffsets)
class AlterOffsets(_Altering):
    request: commands.AlterOffsets

    def entries(self) -> list[OffsetEntry]:
        return list(self.request.offsets)


@carries_out(commands.ResetOffsets)
class ResetOffsets(_Altering):
    """Deletes all offsets."""


@carries_out(commands.ResetTopics)
class ResetTopics(WritingCommand[commands.ResetTopics]):
    def plan(self) -> Plan:
        if not self.leader.config.flag("topic.tracking.enable"):
            raise Refusal(403, "Topic tracking is disabled.")
        if not self.leader.config.flag("topic.tracking.allow.reset"):
            raise Refusal(403, "Topic tracking reset is disabled.")
        return command_plans.reset_topics(self.name, self.leader.now_ms())

    def after(self) -> Mapping[str, Offsets]:
        ends = self.leader.forget_topics(self.name)
        # Written again: if a task read the first one before the tombstones, they have deleted its report.
        self.leader.write(self.plan())
        return {"status": ends}
