"""Everything together, and the moves that a test or hypothesis can make in it."""

from dataclasses import replace

from ringfence.engine.leader.commands import Delete, Pause, RestartTask, Stop
from ringfence.engine.leader.commands.lifecycle import plan_resume
from ringfence.engine.leader.commands.saving import plan_change, plan_creation
from ringfence.fencing.ids import Incarnation, TaskId
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.topics.connector_state import Placement, TargetState
from ringfence.fencing.topics.status import FAILED, LOST, State, StatusState, TaskStatus
from tests.fencing.model.attempt import BATCHES_IN_A_TRANSACTION, Attempt
from tests.fencing.model.leader import Leader, task_configs
from tests.fencing.model.world import C, Rules, Violation, World

PATIENCE = 15
"""After this many steps, an actor that does not wait for others has ended, or finished one cycle."""


class Cluster:
    """Two workers that may lead, and every attempt that was ever placed and has not ended.

    trap: the next attempt that is placed freezes after so many steps.
    """

    def __init__(self, rules: Rules, *, implicit: bool = False) -> None:
        self.world = World(rules, implicit=implicit)
        self.world.on_placement = self._placed
        self.leaders = [Leader(self.world, number) for number in (0, 1)]
        self.attempts: list[Attempt] = []
        self.trap: int | None = None
        self._versions = 0
        self._owner = 0
        self.elect(0)

    def _placed(self, task: TaskId, placement: Placement) -> None:
        attempt = Attempt(self.world, task, placement)
        attempt.fuse, self.trap = self.trap, None
        self.attempts.append(attempt)

    def attempt(self, task: int, attempt: int | None = None) -> Attempt:
        """The newest attempt of a task, or the one with this number in the newest generation."""
        found = [
            one for one in self.attempts if one.spec.task.task == task and attempt in (None, one.spec.placement.attempt)
        ]
        return found[-1]

    # The group.

    def elect(self, owner: int) -> None:
        """A rebalance; nobody tells a former owner yet. Who gets the partition back has learnt of the loss first."""
        self.world.kafka.group_generation += 1
        if owner != self._owner:
            self.leaders[owner].lose()
        self.leaders[owner].gain(self.world.kafka.group_generation)
        self._owner = owner

    def tell_losers(self) -> None:
        """The former owner learns of the rebalance."""
        self.leaders[1 - self._owner].lose()

    # Users.

    def command(self, kind: str, tasks: int = 1, leader: int | None = None, late: bool = False) -> None:
        """`late`: the plugin does not answer in time, so that the reconcile loop asks it again."""
        self._versions += 1
        config = {"n": str(tasks), "version": str(self._versions)}
        configs = None if late else task_configs(tasks)
        to = self.leaders[self._owner if leader is None else leader]
        match kind:
            case "create":
                to.command(plan_creation(C, config, TargetState.RUNNING, configs))
            case "configure":
                to.command(plan_change(C, config, configs, None))
            case "resume":
                to.command(plan_resume(C, configs))
            case "pause":
                to.command(Pause(C).records)
            case "stop":
                to.command(Stop(C).records)
            case "delete":
                to.command(Delete(C).records)
            case "restart":
                to.command(RestartTask(C, tasks - 1).plan_for(None))
            case "reset":
                to.command(to.reset())

    def take_over(self, first: str, then: str, tasks: int, reached: int, rest: int) -> None:
        """A leader freezes after so many steps of a command, another takes over and does something, the first wakes."""
        old = self.leaders[self._owner]
        old.advance(PATIENCE)
        self.command(first, tasks)
        old.advance(reached)
        old.frozen = True
        self.elect(1 - self._owner)
        self.leaders[self._owner].frozen = False
        self.command(then, tasks)
        self.settle(3)
        old.frozen = False
        old.advance(rest)

    # Mishaps.

    def lose(self, task: TaskId) -> None:
        """A worker says, rightly or not, that the newest attempt of a task is lost."""
        placement = self.world.placements.get(task)
        if placement is None:
            return
        self._say(task, placement, State.UNASSIGNED, LOST)

    def fail(self, attempt: Attempt) -> None:
        """An attempt ends for good, in the middle of whatever it does, and cannot abort it."""
        attempt.kill()
        if self.world.placements.get(attempt.spec.task) == attempt.spec.placement:
            self._say(attempt.spec.task, attempt.spec.placement, State.FAILED, FAILED)

    def _say(self, task: TaskId, placement: Placement, state: State, why: str) -> None:
        said = TaskStatus(
            task,
            state,
            placement.worker,
            placement.generation,
            placement.attempt,
            placement.incarnation,
            ended=True,
            why=why,
            left_open=True,
        )
        self.world.status = StatusState(tasks={**self.world.status.tasks, task: said})

    def restart_worker(self, number: int) -> None:
        """A worker starts again; what ran on its last incarnation may be a zombie."""
        old = self.world.members[number]
        self.world.members[number] = LiveWorker(old.worker, Incarnation(str(int(old.incarnation) + 1)), old.slots)

    # Time.

    def settle(self, rounds: int = 4, steps: int = PATIENCE, late: bool = False) -> None:
        """Everything that is not frozen goes on for a while; `steps`: how far an attempt gets in one round.

        late: the views of attempts that have begun to start get nothing of the config topic in the meantime.
        """
        for _ in range(rounds):
            for leader in self.leaders:
                if not leader.frozen:
                    for _ in range(2):
                        leader.advance(PATIENCE)
                        self.world.kafka.write_markers()
                        leader.fence(PATIENCE)
                    leader.reconcile()
            for attempt in list(self.attempts):
                if not attempt.frozen:
                    if not (late and attempt.started):
                        attempt.follow()
                    attempt.advance(steps)
            self.world.kafka.write_markers()
            self.attempts = [attempt for attempt in self.attempts if not attempt.done]

    def come_to_rest(self, *, everything_ends: bool = True) -> None:
        """Nobody is frozen any more, everybody learns everything; then the logs are compared with the promises.

        everything_ends: then every attempt ends, and nobody may wait for what they leave behind.
        """
        for leader in self.leaders:
            leader.frozen = False
        for attempt in self.attempts:
            attempt.frozen, attempt.fuse = False, None
        self.trap = None
        self.tell_losers()
        running = {(one.spec.task, one.spec.placement) for one in self.attempts if not one.done}
        for task, placement in self.world.placements.items():
            if (task, placement) not in running:
                self.lose(task)
        for _ in range(30):
            self.settle(rounds=1)
            if not any(leader.busy for leader in self.leaders):
                break
        self.settle(rounds=5)
        self.world.check_logs()
        if self.world.rules.safe:
            self._check_progress()
            if everything_ends:
                self._check_stable_ends()

    def _check_progress(self) -> None:
        """A connector that shall run does run."""
        state = self.leaders[self._owner].state.connector(C)
        if state.config is None or state.target is not TargetState.RUNNING:
            return
        before = dict(self.world.counts)
        self.settle(rounds=5)
        stuck = [partition for partition, count in self.world.counts.items() if count == before[partition]]
        if stuck:
            raise Violation(f"nothing comes of partitions {stuck}: {self.attempts} run, {self.world.placements} shall")

    def _check_stable_ends(self) -> None:
        """After every attempt has ended, the last stable offset reaches the end: no reader waits for anybody."""
        for attempt in self.attempts:
            attempt.advance(BATCHES_IN_A_TRANSACTION + 1)  # most have a transaction open by then
            self.fail(attempt)
        self.settle(rounds=5)
        for name, log in self.world.kafka.logs.items():
            if log.stable < log.end:
                owner = log.entries[log.stable].transaction.owner
                raise Violation(f"readers of the {name} log wait at {log.stable} of {log.end} for {owner}, for ever")


def running(rules: Rules, tasks: int = 1, *, implicit: bool = False) -> Cluster:
    """A cluster with a connector in full flow. implicit: with transactions v2."""
    cluster = Cluster(rules, implicit=implicit)
    cluster.settle(2)
    cluster.command("create", tasks)
    cluster.settle(4)
    return cluster


def without(rule: str) -> Rules:
    """All rules but one."""
    return replace(Rules(), **{rule: False})
