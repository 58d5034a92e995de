"""The driver's part of a sink's log: which run may decide, and what is decided."""

import logging
import uuid

import orjson

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fenced
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.spark.errors import SinkError, Superseded
from ringfence.spark.records import (
    Batch,
    SinkState,
    key_of,
    key_prefix,
    value_of_batch,
    value_of_run,
)
from ringfence.spark.settings import SinkSettings

logger = logging.getLogger(__name__)

_SECONDS = 120.0
_TRIES = 5
_LOG_TIMEOUT_MS = 60_000


class SinkLog:
    """The log as used by one run. Only the last run that opens it can write: the driver's id fences earlier ones."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._token = uuid.uuid4().hex
        self._producer: Producer | None = None
        self.run = 0
        self.state = SinkState()

    @property
    def is_open(self) -> bool:
        return self._producer is not None and not self._producer.spent

    def open(self) -> None:
        """Fence earlier runs, read the log, and register this run. Raises `Superseded`.

        A registered run opens the log again after an unknown outcome, but not once a newer run has registered.
        """
        deadline = Deadline.after(_SECONDS)
        connection, topic = self._settings.connection, self._settings.log_topic
        create_topics(connection, [TopicSpec(topic, config={"cleanup.policy": "compact"})], deadline)
        for _ in range(_TRIES):
            self._renew(deadline)
            self.read(deadline)
            if self.run and self.state.token != self._token:
                raise Superseded(
                    f"The sink {self._settings.sink_id} has been started again (run {self.state.run}, this is "
                    f"run {self.run}): this query can no longer write. Stop it; the newer one continues."
                )
            if self.run:
                return
            run = self.state.run if self.state.token == self._token else self.state.run + 1
            try:
                self._write(key_of(self._settings.sink_id, "run"), value_of_run(run, self._token), deadline)
            except (Fenced, Abortable) as error:
                # Another run has started at the same time, or the response is lost: the log shows which.
                logger.info("Registering run %d of %s: %s", run, self._settings.sink_id, error)
                continue
            self.run = run
            self.state.run, self.state.token = run, self._token
            return
        raise SinkError(
            f"The sink {self._settings.sink_id} is fenced again and again: does the query run twice? Stop the other "
            "one."
        )

    def decide(self, batch: Batch) -> None:
        """Commit the decision: from then on the batch is written, even if this process ends. Raises `Superseded`.

        Raises `Abortable` if it is not decided, and the log is open again.
        """
        if not self.is_open:
            self.open()
        try:
            self._write(key_of(self._settings.sink_id, "batch"), value_of_batch(batch), Deadline.after(_SECONDS))
        except (Fenced, Abortable) as error:
            try:
                self.open()
            except Superseded:
                if self.state.batch != batch:
                    raise
            if self.state.batch != batch:
                raise Abortable(str(error), error.code) from error
        self.state.batch = batch

    def read(self, deadline: Deadline) -> SinkState:
        """Read the log to its end. Complete for transactions of ids that were initialised or fenced before."""
        self.state = SinkState()
        prefix = key_prefix(self._settings.sink_id)
        log = TopicLog(self._settings.connection, self._settings.log_topic, deadline=deadline)

        def is_ours(key: bytes | None) -> bool:
            return key is not None and key.startswith(prefix)

        try:
            records = list(log.catch_up(deadline, key_filter=is_ours))
            records += log.ahead
        finally:
            log.close()
        for record in records:
            if is_ours(record.key) and record.value is not None:
                self.state.apply(orjson.loads(record.key or b"")[1:], orjson.loads(record.value))
        return self.state

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _renew(self, deadline: Deadline) -> None:
        self.close()
        self._producer = Producer(
            self._settings.connection,
            self._settings.driver_id,
            transaction_timeout_ms=_LOG_TIMEOUT_MS,
            overrides=dict(self._settings.producer),
        )
        self._producer.init(deadline)

    def _write(self, key: bytes, value: bytes, deadline: Deadline) -> None:
        assert self._producer is not None
        self._producer.begin()
        self._producer.produce(self._settings.log_topic, value, key)
        self._producer.commit(deadline)
