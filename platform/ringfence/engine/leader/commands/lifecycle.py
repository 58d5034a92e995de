"""Commands to create, configure, pause, resume, stop and delete a connector."""

from collections.abc import Callable
from typing import Final

from ringfence.engine.leader import command_plans, restart_plans
from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.leader.commands.command import Outcome, WritingCommand, carries_out
from ringfence.engine.leader.write_result import WriteResult
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests import commands
from ringfence.requests.commands import Config, CreationResult, validation_result
from ringfence.requests.quota import Quota
from ringfence.requests.request import Refusal


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


_INITIAL: Final = {"RUNNING": TargetState.RUNNING, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}


class _Saving(WritingCommand[commands.Create | commands.Configure]):
    """A command that saves a configuration, with the topics that its user may write to (from the web process)."""

    starts = True
    outcome: CreationResult

    def run(self, report: Callable[[Outcome], None]) -> Outcome:
        """Save it, unless the answer is that it is invalid."""
        if self.makes_tasks(self.connector):
            self.leader.read_offsets_ahead(self.name, self.request.config)
        self.outcome = validation_result(self.leader.validate(self.request.config, java=self.request.java))
        if "invalid" in self.outcome:
            return Outcome(self.outcome)
        return super().run(report)

    def makes_tasks(self, now: ConnectorState) -> bool:
        """Return whether the plugin is to make tasks for the configuration. now: the connector as it is."""
        raise NotImplementedError

    def value(self, result: WriteResult) -> CreationResult:
        commit = result.state.connector(self.name).commit
        return {**self.outcome, "tasks": 0 if commit is None else commit.tasks}

    def grant(self) -> TopicGrantRecord | None:
        grant = self.request.topic_grant
        return TopicGrantRecord.parse("", self.name, grant) if grant else None

    def limit(self, plan: Plan, config: Config) -> Plan:
        """Return the plan, refused where it would pass the account's quota."""
        account, quota = self._quota()
        return plan if quota is None else command_plans.within(plan, account, quota, self.name, config)

    def check_quota(self, config: Config) -> None:
        """Refuse what passes the quota already now, before the plugin makes tasks for it."""
        account, quota = self._quota()
        if quota is not None:
            command_plans.require(self.leader.state(), account, quota, self.name, config)

    def _quota(self) -> tuple[str, Quota | None]:
        grant = self.grant()
        if self.request.quota is None or grant is None:
            return "", None
        return grant.user, Quota.parse(self.request.quota)

    def plan_creation(self, config: Config, initial: TargetState) -> Plan:
        if self.connector.config is not None:
            raise Refusal(409, f"Connector {self.name} already exists")
        self.check_quota(config)
        self.outcome["created"] = True
        self.leader.look_up_version(config)
        grant = self.grant()
        tasks = None if initial is TargetState.STOPPED else self.leader.make_tasks(self.name, config, grant)
        return self.limit(command_plans.create(self.name, config, initial, tasks, grant), config)


@carries_out(commands.Create)
class Create(_Saving):
    request: commands.Create

    @property
    def initial(self) -> TargetState:
        return _INITIAL[(self.request.initial_state or "RUNNING").upper()]

    def makes_tasks(self, now: ConnectorState) -> bool:
        return now.config is None and self.initial is not TargetState.STOPPED

    def plan(self) -> Plan:
        return self.plan_creation(self.request.config, self.initial)


@carries_out(commands.Configure)
class Configure(_Saving):
    request: commands.Configure

    def makes_tasks(self, now: ConnectorState) -> bool:
        if now.config is None:
            return self.request.create
        return self._changes(now) and now.target is not TargetState.STOPPED

    def _changes(self, now: ConnectorState) -> bool:
        return now.config != self.request.config or now.unreadable is not None

    def plan(self) -> Plan:
        config, expected, connector = self.request.config, self.request.expected, self.connector
        if connector.config is None:
            if not self.request.create:
                raise Refusal(404, f"Connector {self.name} not found")
            return self.plan_creation(config, TargetState.RUNNING)
        self.check_quota(config)
        self.outcome |= {"created": False, "changed": self._changes(connector)}
        grant = self.grant()
        tasks = self.leader.make_tasks(self.name, config, grant) if self.makes_tasks(connector) else None
        return self.limit(command_plans.configure(self.name, config, tasks, expected, grant), config)


@carries_out(commands.Pause)
class Pause(WritingCommand[commands.Pause]):
    def plan(self) -> Plan:
        return command_plans.pause(self.name)


@carries_out(commands.SendSignal)
class SendSignal(WritingCommand[commands.SendSignal]):
    def plan(self) -> Plan:
        return command_plans.send_signal(self.name, self.request.kind, self.request.data, self.leader.now_ms())

    def note(self) -> str:
        collections = self.request.data.get("data-collections")
        return " ".join([self.request.kind, *map(str, collections if isinstance(collections, list | tuple) else ())])


@carries_out(commands.Resume)
class Resume(WritingCommand[commands.Resume]):
    starts = True

    def plan(self) -> Plan:
        now = self.connector
        makes = now.config is not None and now.target is TargetState.STOPPED
        tasks = self.leader.make_tasks(self.name, now.config or {}, now.topic_grant) if makes else None
        return command_plans.resume(self.name, tasks)


@carries_out(commands.Stop)
class Stop(WritingCommand[commands.Stop]):
    def plan(self) -> Plan:
        return command_plans.stop(self.name)

    def awaits_round(self) -> bool:
        return True


@carries_out(commands.Delete)
class Delete(WritingCommand[commands.Delete]):
    def plan(self) -> Plan:
        return command_plans.delete(self.name)

    def awaits_round(self) -> bool:
        return True
