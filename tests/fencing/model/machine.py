"""The machine: hypothesis makes the moves, `Violation` is what it looks for."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.fencing.model.cluster import Cluster, running
from tests.fencing.model.world import Rules

COMMANDS = ["stop", "reset", "resume", "configure", "configure", "configure", "pause", "delete", "create"]
FLOWS = [
    ("stop", "reset"),
    ("stop", "reset", "resume"),
    ("stop", "resume"),
    ("delete", "create"),
    ("configure", "configure"),
]
TAKEN_OVER = ["reset", "reset", "configure", "stop", "resume"]
indices = st.integers(0, 5)
some = st.sampled_from([0, 1, 1, 2, 2, 3, 3, 4, 5, 6])
steps = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 8, 10, 15])
rounds = st.sampled_from([0, 1, 1, 2, 3])
counts = st.sampled_from([1, 1, 2, 3])


class Machine(RuleBasedStateMachine):
    """Moves of users, of time, and of bad luck, in any order and any number."""

    RULES = Rules()
    IMPLICIT = False
    """Whether brokers have transactions v2."""
    cluster: Cluster

    @initialize(tasks=counts)
    def begin(self, tasks: int) -> None:
        self.cluster = running(self.RULES, tasks, implicit=self.IMPLICIT)

    # Users.

    @rule(kind=st.sampled_from(COMMANDS), tasks=counts, rounds=rounds, steps=steps)
    def command(self, kind: str, tasks: int, rounds: int, steps: int) -> None:
        self.cluster.command(kind, tasks)
        self.cluster.settle(rounds, steps)

    @rule(flow=st.sampled_from(FLOWS), first=counts, last=counts, rounds=rounds, late=st.booleans())
    def commands(self, flow: tuple[str, ...], first: int, last: int, rounds: int, late: bool) -> None:
        for kind in flow:
            self.cluster.command(kind, last if kind is flow[-1] else first)
            self.cluster.settle(rounds, late=late)

    @rule(kind=st.sampled_from(["restart", *COMMANDS]), tasks=counts, leader=st.integers(0, 1), slow=st.booleans())
    def command_to(self, kind: str, tasks: int, leader: int, slow: bool) -> None:
        self.cluster.command(kind, tasks, leader, slow)

    @rule(first=st.sampled_from(TAKEN_OVER), then=st.sampled_from(COMMANDS), tasks=counts, reached=some, rest=some)
    def take_over(self, first: str, then: str, tasks: int, reached: int, rest: int) -> None:
        self.cluster.take_over(first, then, tasks, reached, rest)

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

    @precondition(lambda self: self.cluster.attempts)
    @rule(index=indices, steps=some)
    def freeze(self, index: int, steps: int) -> None:
        self.cluster.attempts[index % len(self.cluster.attempts)].fuse = steps

    @precondition(lambda self: self.cluster.attempts)
    @rule(steps=some, index=indices, lost=st.booleans())
    def freeze_the_next(self, steps: int, index: int, lost: bool) -> None:
        self.cluster.trap = steps
        if lost:
            self.cluster.lose(self.cluster.attempts[index % len(self.cluster.attempts)].spec.task)
            self.cluster.settle(2)

    @precondition(lambda self: any(attempt.frozen for attempt in self.cluster.attempts))
    @rule(index=indices, steps=st.sampled_from([15, 1, 2, 3, 6, 10]), read=some, thaw=st.booleans())
    def zombie(self, index: int, steps: int, read: int, thaw: bool) -> None:
        frozen = [attempt for attempt in self.cluster.attempts if attempt.frozen]
        attempt = frozen[index % len(frozen)]
        attempt.frozen = not thaw
        if read > 2:
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
    @rule(
        index=indices,
        how=st.sampled_from(["lost", "killed", "worker", "failed", "data", "offsets"]),
        steps=steps,
        late=st.booleans(),
    )
    def lose(self, index: int, how: str, steps: int, late: bool) -> None:
        attempt = self.cluster.attempts[index % len(self.cluster.attempts)]
        if how == "killed":
            attempt.kill()
        if how in ("data", "offsets"):
            attempt.die_late(how)
        if how == "failed":
            self.cluster.fail(attempt)
            self.cluster.settle(2, steps, late)
            return
        if how == "worker":
            self.cluster.restart_worker(index % 2)
        else:
            self.cluster.lose(attempt.spec.task)
        self.cluster.settle(2, steps, late)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.come_to_rest()


MOVES = frozenset(name for name, member in vars(Machine).items() if hasattr(member, "hypothesis_stateful_rule"))


def search(
    rules: Rules,
    examples: int,
    moves: frozenset[str] = MOVES,
    steps: int = 40,
    *,
    derandomize: bool = False,
    implicit: bool = False,
) -> None:
    """Run the machine with these moves only. Raises the `Violation` that it finds."""
    absent = dict.fromkeys(MOVES - moves)
    machine = type("Weakened", (Machine,), {"RULES": rules, "IMPLICIT": implicit, **absent})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )
