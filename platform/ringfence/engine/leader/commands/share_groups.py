"""What people do to a share group; a connector's is moved with its ledger, which is its source offsets."""

from collections.abc import Callable

from ringfence.engine.leader.commands.command import LeaderCommand, Offsets, Outcome, carries_out
from ringfence.engine.leader.share_group_acts import Changes, ShareGroupAct
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import SourceOffset
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.requests import commands


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
