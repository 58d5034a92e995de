"""The kernel's own producer on the model's Kafka: its state machine, and answers that come at once."""

from collections.abc import Callable, Sequence

from ringfence.fencing.errors import FencingError
from ringfence.fencing.transactions.error_codes import ErrorCode
from ringfence.fencing.transactions.messages import GroupMember
from ringfence.fencing.transactions.record_batches import RecordBatch
from ringfence.fencing.transactions.state_machine import StateMachine
from ringfence.fencing.transactions.steps import Limits, Phase
from tests.fencing.model.kafka import Fenced, Kafka, OldGeneration

_PATIENCE = 200
"""Nothing takes more turns than this."""
NewMachine = Callable[[str, int, Limits], StateMachine]


class Producer:
    """`take` until it says yes, then one transaction after another. Raises `Fenced`, or `OldGeneration`."""

    def __init__(self, kafka: Kafka, transactional_id: str, new_machine: NewMachine = StateMachine) -> None:
        self._kafka = kafka
        self._machine = new_machine(transactional_id, 60_000, Limits(delivery_s=1e9, metadata_s=1e9))
        self._machine.use_version(kafka.implicit)
        self._machine.initialise()

    @property
    def epoch(self) -> int:
        return self._machine.epoch

    def take(self) -> bool:
        """Try to take the id; False for "not yet", when the transaction before has no markers yet."""
        self._serve()
        self._raise_error()
        return self._machine.phase is Phase.READY

    def append(self, records: Sequence[tuple[str, object]]) -> None:
        """Write records to logs, in the open transaction or in a new one; return when the logs have them."""
        self._begin()
        for log, record in records:
            number = self._kafka.keep(record)
            self._machine.add((log, 0), RecordBatch(1, 0, 0, 0, number), self._kafka.now)
        self._run(lambda: not self._machine.queues.busy)

    def prove_membership(self, generation: int) -> None:
        """Commit an offset of the group with its metadata (KIP-447)."""
        self._begin()
        self._machine.send_offsets(GroupMember("g", generation), {("config", 0): 0})
        self._run(lambda: self._machine.group.done)

    def commit_open(self) -> None:
        """Commit if a transaction is open."""
        if self._machine.phase is Phase.OPEN:
            self.commit()

    def commit(self) -> None:
        self._machine.commit()
        self._run(lambda: self._machine.phase is Phase.READY)

    def _begin(self) -> None:
        if self._machine.phase is Phase.READY:
            self._machine.begin(self._kafka.now)
            self._run(lambda: not self._machine.takes_epoch)

    def _run(self, done: Callable[[], bool]) -> None:
        for _ in range(_PATIENCE):
            self._serve()
            self._raise_error()
            if done():
                return
        raise AssertionError("the producer waits for ever")

    def _serve(self) -> None:
        """Send what is due, and what is due after the answers, until nothing is."""
        self._kafka.now += 1
        while requests := self._machine.poll(self._kafka.now):
            for each in requests:
                self._machine.take_answer(each.number, self._kafka.handle(each.request), self._kafka.now)

    def _raise_error(self) -> None:
        error: FencingError | None = self._machine.error
        if error is None:
            return
        if error.code == ErrorCode.ILLEGAL_GENERATION.name:
            raise OldGeneration
        if error.code in (ErrorCode.INVALID_PRODUCER_EPOCH.name, ErrorCode.PRODUCER_FENCED.name):
            raise Fenced(self._machine.transactional_id)
        raise AssertionError(f"no failure of the model is this one: {error}")
