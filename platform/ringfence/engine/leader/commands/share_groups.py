"""Commands on a share group. A connector's group is moved together with its ledger, its source offsets."""

from collections.abc import Callable

from ringfence.engine.leader import request_plans
from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.leader.commands.command import LeaderCommand, Offsets, Outcome, WritingCommand, carries_out
from ringfence.engine.leader.share_group_acts import Changes, ShareGroupAct
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import SourceOffset
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.requests import commands


@carries_out(commands.SweepNow)
class SweepNow(WritingCommand[commands.SweepNow]):
    def plan(self) -> Plan:
        value = {"places": [list(place) for place in self.request.places], "time_ms": self.leader.now_ms()}
        record = SweepRequestRecord.parse("", self.name, value)
        assert record is not None
        return request_plans.request_sweep(record)


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
