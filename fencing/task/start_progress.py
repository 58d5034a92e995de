"""Tells what an attempt waits for, within ten seconds: stage, topic, partition and producer, as far as they are known.

A start waits for brokers, coordinators and partitions. The status of a task that does not run, its page and the log say
what it waits for.
"""

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import HangingProber, TransactionProber
from ringfence.fencing.task.clients import admin_connection, reading_connection
from ringfence.fencing.task.task_spec import TaskSpec

log = logging.getLogger(__name__)

READING_CONFIG = "reading the config topic"
INITIALISING = "initialising the producer"
READING_OFFSETS = "reading source offsets"
RENEWING = "taking a new producer"

_LOOK_S = 1.0
_FIRST_S = 5.0
_AGAIN_S = 30.0
_MOST = 3
_ASK_S = 3.0


class StartWatch:
    """A thread beside one attempt. stage(): returns its current stage and for how many seconds; None if it does not
    wait.

    describe(stage): returns what delays it, as a message; may ask brokers. tell(stage, text): called after 5 s in one
    stage, and then every 30 s; the attempt may just have left it.
    """

    def __init__(
        self,
        stage: Callable[[], tuple[str, float] | None],
        describe: Callable[[str], str],
        tell: Callable[[str, str], None],
    ) -> None:
        self._stage = stage
        self._describe = describe
        self._tell = tell
        self._closing = threading.Event()
        self._waking = threading.Event()
        self._thread = threading.Thread(target=self._run, name="start-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look again: the attempt is in another stage. The thread sleeps while it does not wait."""
        self._waking.set()

    def close(self) -> None:
        """End the thread. It may still be asking a broker, but reports nothing any more."""
        self._closing.set()
        self._waking.set()

    def _run(self) -> None:
        last, due = "", _FIRST_S
        while not self._closing.is_set():
            now = self._stage()
            if now is None:
                last = ""
                self._waking.wait()
                self._waking.clear()
                continue
            if now[0] != last:
                last, due = now[0], _FIRST_S
            if now[1] < due:
                self._closing.wait(_LOOK_S)
                continue
            due = now[1] + _AGAIN_S
            description = self._describe(last)
            again = self._stage()
            if again is not None and again[0] == last and not self._closing.is_set():
                self._tell(last, f"{last}, for {again[1]:.0f} s{': ' if description else ''}{description}")


def holding_up(stage: str, spec: TaskSpec, offsets_topic: str, clock: Clock) -> str:
    """Return what this stage of a start waits for; "" if the stage's name says it all. Asks brokers."""
    if stage == READING_CONFIG:
        return describe_topics(spec.connection, [spec.topics.config])
    with suppress(Invalid):  # the task gets the same error, and reports it
        if stage == READING_OFFSETS:
            return describe_topics(reading_connection(spec), [offsets_topic])
        if stage in (INITIALISING, RENEWING):
            return describe_id(admin_connection(spec), spec.transactional_id, clock)
    return ""


def describe_id(connection: Connection, transactional_id: str, clock: Clock) -> str:
    """Return what the coordinator says about an id whose `init` does not return."""
    try:
        with TransactionProber(connection) as prober:
            (transaction,) = prober.transactions([transactional_id], Deadline.after(_ASK_S, clock))
    except FencingError as error:
        return str(error)
    if not transaction.open:
        return (
            f"the coordinator says that {transactional_id} is {transaction.state or 'unknown'}: "
            "it has no open transaction"
        )
    where = ", ".join(f"{topic}-{partition}" for topic, partition in transaction.partitions) or "no partition"
    return (
        f"the coordinator says that {transactional_id}, producer id {transaction.producer_id}, epoch "
        f"{transaction.epoch}, is {transaction.state}, with {where}: it waits for the leaders of these partitions"
    )


def describe_topics(connection: Connection, topics: Collection[str]) -> str:
    """Return the open transactions on topics whose end is not reached."""
    names = ", ".join(sorted(topics))
    try:
        with HangingProber(connection) as prober:
            transactions = prober.open_on(topics)
    except FencingError as error:
        return f"{names}: {error}"
    if not transactions:
        return f"{names}: no transaction is open there, so the brokers are slow"
    summary = "; ".join(one.message for one in transactions[:_MOST])
    more = f"; and {len(transactions) - _MOST} more" if len(transactions) > _MOST else ""
    return f"{names}, where transactions are open: {summary}{more}"
