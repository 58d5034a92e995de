"""Commands to alter and reset source offsets (KIP-875), and to forget the active topics (KIP-558)."""

from collections.abc import Mapping

from ringfence.engine.leader import command_plans
from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.leader.commands.command import Offsets, WritingCommand, carries_out
from ringfence.engine.leader.write_result import WriteResult
from ringfence.requests import commands
from ringfence.requests.command_answers import OffsetCheck
from ringfence.requests.commands import OffsetEntry
from ringfence.requests.refusal import Refusal


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
