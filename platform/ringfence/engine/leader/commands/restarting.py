"""Commands to restart a connector, all of its tasks, or one of them (KIP-745)."""

from ringfence.engine.leader import restart_plans
from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.leader.commands.command import WritingCommand, carries_out
from ringfence.requests import commands


@carries_out(commands.Restart)
class Restart(WritingCommand[commands.Restart]):
    def plan(self) -> Plan:
        connector, status = self.connector, self.leader.statuses()
        scope = self.request.include_tasks, self.request.only_failed
        if connector.config is not None:
            self.leader.mark_restarting(self.name, restart_plans.tasks_to_restart(connector, *scope, status))
            self.leader.restart_instance(self.name, only_failed=self.request.only_failed)
        return restart_plans.restart(self.name, *scope, status)


@carries_out(commands.RestartTask)
class RestartTask(WritingCommand[commands.RestartTask]):
    def plan(self) -> Plan:
        self.leader.mark_restarting(self.name, [self.request.task])
        return restart_plans.restart_task(self.name, self.request.task, self.connector.generation)
