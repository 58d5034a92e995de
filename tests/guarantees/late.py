"""What the tests of late requests share: producers on the way through the proxy."""

from collections.abc import Callable

from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.stage import Attempt, Counting, Script, Stage
from tests.support.proxy import Api, Fate, Proxied, Request, Trap, topic_mark
from tests.support.waiting import eventually

SHUT_OUT = {47, 90}  # invalid producer epoch, producer fenced


def end_txn_error(answer: bytes) -> int:
    """The code in a broker's answer to EndTxn, behind its head and the throttle time."""
    return int.from_bytes(answer[5:7], "big")


class LateTask:
    """One task whose producer comes through the proxy."""

    def __init__(self, stage: Stage, proxied: Proxied) -> None:
        self.stage = stage
        self.lives: list[Producer] = []
        self.delivered: list[bytes] = []
        self._proxied = proxied
        self._id = f"{stage.group}-{stage.connector}-0"
        self._config = {
            "topic": stage.data,
            "transaction.boundary": "interval",
            "transaction.boundary.interval.ms": "300",
            "producer.override.transaction.timeout.ms": "3000",
        }
        stage.configure(self._config)
        stage.count()

    def new_producer(self, spec: TaskSpec, timeout_ms: int) -> TransactionalClient:
        """What `SourceTaskRun` calls for each life."""
        self.lives.append(Producer(self._proxied.through, spec.transactional_id, transaction_timeout_ms=timeout_ms))
        return self.lives[-1]

    def start(self, script: Script, kind: type[Counting]) -> Attempt:
        """The next attempt."""
        number = len(self.stage.attempts) + 1
        return self.stage.start(script, self._config, number, kind=kind, new_producer=self.new_producer)

    def trap(
        self,
        api: Api,
        fate: Fate = Fate.HOLD,
        times: int = 1,
        *,
        topic: str = "",
        commits: bool | None = None,
        first: Callable[[], object] = lambda: None,
    ) -> Trap:
        """For the task's requests of one kind."""

        mark = topic_mark(self._proxied.direct, topic) if topic else b""

        def wants(request: Request) -> bool:
            if request.api != api or not request.names(self._id) or not request.holds(mark):
                return False
            return commits is None or request.commits is commits

        return self._proxied.proxy.set_trap(wants, fate, times, first)

    def open_records(self) -> int:
        """How many the newest attempt's open transaction has."""
        return self.stage.attempts[-1].run._counters.open_records

    def amid_a_transaction(self) -> bool:
        """Asked inside of `poll`: whether a transaction is open; then, once all of its records are in the broker."""
        if not self.open_records():
            return False
        assert self.lives[-1].flush(20) == 0
        return True

    def deliver(self, trap: Trap) -> None:
        """The first request that was caught reaches the broker now."""
        self.delivered.append(self._proxied.proxy.deliver(trap.wait()))

    def check_late_end(self) -> None:
        """The broker refused the late commit or abort for its old epoch."""
        (answer,) = self.delivered
        assert end_txn_error(answer) in SHUT_OUT

    def wait_for_delivery(self) -> None:
        """The scene has played, unless the attempt ended before."""
        attempt = self.stage.attempts[-1]
        eventually(lambda: self.delivered or attempt.outcome is not None, 60, "the request came late")
        assert self.delivered, attempt.outcome

    def finish(self) -> None:
        """The newest attempt reads and commits some more, where it still can, and ends."""
        attempt = self.stage.attempts[-1]
        counters = attempt.run._counters
        before = counters.transactions
        eventually(lambda: attempt.outcome is not None or counters.transactions >= before + 2, 40, "it goes on")
        attempt.run.end()
        attempt.ended()

    def close(self) -> None:
        for life in self.lives:
            life.close()
