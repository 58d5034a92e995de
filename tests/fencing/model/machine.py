"""The machine: hypothesis makes the moves, `Violation` is what it looks for."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.fencing.model.cluster import Cluster, running
from tests.fencing.model.world import Rules

COMMANDS = ["stop", "reset", "resume", "configure", "configure", "configure", "pause", "delete", "create"]
FLOWS = [("stop", "reset"), ("stop", "reset", "resume"), ("delete", "create"), ("configure", "configure")]
indices = st.integers(0, 5)
steps = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 8, 10, 15])
rounds = st.sampled_from([0, 1, 1, 2, 3])
counts = st.sampled_from([1, 1, 2, 3])


class Machine(RuleBasedStateMachine):
    """Moves of users, of time, and of bad luck, in any order and any number."""

    RULES = Rules()
    cluster: Cluster

    @initialize(tasks=counts)
    def begin(self, tasks: int) -> None:
        self.cluster = running(self.RULES, tasks)

    # Users.

    @rule(kind=st.sampled_from(COMMANDS), tasks=counts, rounds=rounds, steps=steps)
    def command(self, kind: str, tasks: int, rounds: int, steps: int) -> None:
        self.cluster.command(kind, tasks)
        self.cluster.settle(rounds, steps)

    @rule(flow=st.sampled_from(FLOWS), tasks=counts, rounds=rounds, late=st.booleans())
    def commands(self, flow: tuple[str, ...], tasks: int, rounds: int, late: bool) -> None:
        for kind in flow:
            self.cluster.command(kind, tasks)
            self.cluster.settle(rounds, late=late)

    @rule(kind=st.sampled_from(["restart", *COMMANDS]), tasks=counts, leader=st.integers(0, 1), slow=st.booleans())
    def command_to(self, kind: str, tasks: int, leader: int, slow: bool) -> None:
        self.cluster.command(kind, tasks, leader, slow)

    # Time.

    @rule(rounds=rounds, steps=steps, late=st.booleans())
    def settle(self, rounds: int, steps: int, late: bool) -> None:
        self.cluster.settle(rounds + 1, steps, late)

    @rule(leader=st.integers(0, 1), steps=steps, fence=st.integers(0, 3), compact=st.booleans(), marker=indices)
    def leader(self, leader: int, steps: int, fence: int, compact: bool, marker: int) -> None:
        self.cluster.leaders[leader].reconcile()
        self.cluster.leaders[leader].advance(steps)
        self.cluster.leaders[leader].fence(fence)
        self.cluster.world.kafka.write_markers(marker)
        if compact:
            self.cluster.world.compact()

    # Bad luck.

    @precondition(lambda self: any(not attempt.frozen for attempt in self.cluster.attempts))
    @rule(index=indices, steps=steps)
    def freeze(self, index: int, steps: int) -> None:
        awake = [attempt for attempt in self.cluster.attempts if not attempt.frozen]
        attempt = awake[index % len(awake)]
        attempt.advance(steps)
        attempt.frozen = True

    @precondition(lambda self: any(attempt.frozen for attempt in self.cluster.attempts))
    @rule(index=indices, steps=steps, follow=st.booleans(), thaw=st.booleans())
    def zombie(self, index: int, steps: int, follow: bool, thaw: bool) -> None:
        frozen = [attempt for attempt in self.cluster.attempts if attempt.frozen]
        attempt = frozen[index % len(frozen)]
        attempt.frozen = not thaw
        if follow:
            attempt.follow()
        attempt.advance(steps)

    @rule(owner=st.integers(0, 1), frozen=st.booleans(), told=st.booleans(), rounds=rounds)
    def rebalance(self, owner: int, frozen: bool, told: bool, rounds: int) -> None:
        self.cluster.leaders[1 - owner].frozen = frozen
        self.cluster.leaders[owner].frozen = False
        self.cluster.elect(owner)
        if told:
            self.cluster.tell_losers()
        self.cluster.settle(rounds)

    @precondition(lambda self: self.cluster.attempts)
    @rule(index=indices, how=st.sampled_from(["lost", "killed", "worker"]), steps=steps, late=st.booleans())
    def lose(self, index: int, how: str, steps: int, late: bool) -> None:
        attempt = self.cluster.attempts[index % len(self.cluster.attempts)]
        if how == "killed":
            attempt.kill()
        if how == "worker":
            self.cluster.restart_worker(index % 2)
        else:
            self.cluster.lose(attempt.spec.task)
        self.cluster.settle(2, steps, late)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.come_to_rest()


def search(rules: Rules, examples: int, steps: int = 40, *, derandomize: bool = False) -> None:
    """Run the machine. Raises the `Violation` that it finds."""

    class Weakened(Machine):
        RULES = rules

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Weakened,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )
