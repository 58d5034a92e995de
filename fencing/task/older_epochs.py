"""The task's part of invariant 13: before its producer writes to a topic, no transaction of its older epochs hangs
there.

The check costs about 10 ms of CPU time, and runs while the source offsets are read; a topic that is used later is
checked before its first record. After the first record, no older epoch can write to its partition.
"""

import threading
from collections.abc import Callable, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.hanging_transactions import Hanging
from ringfence.fencing.leader import older_epochs
from ringfence.fencing.leader.fence_targets import list_admin_access
from ringfence.fencing.leader.older_epochs import end_leftovers
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.client import TransactionalClient

_NOBODYS = -1
_SECONDS = 60.0
_PAUSE_S = 0.5


class TaskLeftovers:
    """The check of one attempt, for all its producers. Used on the task's thread. Call `close` at the end."""

    def __init__(
        self, spec: TaskSpec, clock: Clock, on_end: Callable[[Hanging], None], stopping: Callable[[], None]
    ) -> None:
        """on_end: called with each transaction that was ended, on another thread. stopping: raises if the attempt must
        end.
        """
        self._spec = spec
        self._clock = clock
        self._on_end = on_end
        self._stopping = stopping
        self._epochs: dict[int, int] = {}
        self._topics: set[str] = set()
        self._under_way: Future[None] | None = None
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="leftovers")
        self.trouble = ""
        """What the check waits for, as a message; "" if it makes progress."""

    def connect(self) -> None:
        """Connect in the background, before there is anything to check."""
        accesses = list_admin_access(
            None, self._spec.connector_config, self._spec.connection, self._spec.worker_settings
        )
        self._pool.submit(older_epochs.connect, accesses)

    def begin(self, producer: TransactionalClient, offsets_topic: str) -> None:
        """Check the topics that a producer will certainly write to, after its `init` has returned."""
        self._epochs = {producer.producer_id: producer.epoch} if producer.producer_id != _NOBODYS else {}
        names = self._spec.connector_config.get("topic", "").split(",")
        self._topics = {offsets_topic, *(name.strip() for name in names if name.strip())}
        self._under_way = self._pool.submit(self._look, frozenset(self._topics))

    def clear(self, topics: Set[str]) -> None:
        """Return once no transaction hangs on these topics. Raises `Retriable`, naming one that cannot be ended."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._await(under_way)
        if more := frozenset(topics - self._topics):
            self._await(self._pool.submit(self._look, more))
            self._topics |= more

    def _await(self, under_way: "Future[None]") -> None:
        while not wait([under_way], _PAUSE_S).done:
            self._stopping()
        under_way.result()

    def _look(self, topics: frozenset[str]) -> None:
        spec = self._spec
        accesses = list_admin_access(None, spec.connector_config, spec.connection, spec.worker_settings)
        deadline = Deadline.after(_SECONDS, self._clock)
        while True:
            try:
                end_leftovers(topics, self._epochs, accesses, self._on_end)
            except Retriable as error:
                self.trouble = str(error)
                if deadline.expired or self._closing.wait(_PAUSE_S):
                    raise
            else:
                self.trouble = ""
                return

    def close(self) -> None:
        self._closing.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
