"""Guards the cluster's topics: opens them when the worker starts, and then watches them.

It fails closed. If the config or offsets topic is gone, or was replaced, the worker ends its tasks and itself. After
its restart it waits, outside of the group and without tasks, until the topic is back, or until an operator has accepted
or restored another one. While it waits, its log, the database and the alerts show the reason.
"""

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from ringfence import django_apps
from ringfence.alerts.tasks import watch_alone
from ringfence.engine.platform_topics import ensure_topics, specs
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable, TopicLost
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import create_topics
from ringfence.fencing.kafka.topic_id_watch import TopicWatch
from ringfence.fencing.topics.topic_ids import EVENTS, PRECIOUS, Loss, TopicIds, explanation
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_KAFKA_SECONDS = 60.0
_PATIENCE_SECONDS = 180.0
_LOOK_SECONDS = 2.0
_TICK_SECONDS = 0.25


class TopicGuard:
    """`open` is called on the main thread; `watch` is the body of a thread."""

    def __init__(self, config: WorkerConfig, connection: Connection, incarnation: str) -> None:
        self._config = config
        self._connection = connection
        self._incarnation = incarnation

    def open(self, stop: threading.Event) -> TopicIds:
        """Return the topics as soon as all of them exist for certain. While one is lost, report it and wait.

        SIGTERM ends the wait. Raises `Retriable` if Kafka does not answer for three minutes.
        """
        over, alerts, patience = threading.Event(), None, Deadline.after(_PATIENCE_SECONDS)
        try:
            while True:
                try:
                    return ensure_topics(self._connection, self._config, Deadline.after(_KAFKA_SECONDS), self._recall)
                except TopicLost as lost:
                    if alerts is None:
                        log.error("%s", lost)  # noqa: TRY400 - the message is for users
                        end_on_sigterm()
                        alerts = threading.Thread(target=watch_alone, args=(self._incarnation, over), daemon=True)
                        alerts.start()
                    _tell(str(lost))
                except Retriable as error:
                    # A restart takes longer than waiting for a broker that is starting.
                    if alerts is None and patience.expired:
                        raise
                    log.info("The worker waits for its topics: %s", error)
                stop.wait(_LOOK_SECONDS)
        finally:
            over.set()

    def _recall(self) -> TopicIds | None:
        """Return the ids in the database. Tasks must be able to start without it; then the ids in Kafka must do."""
        from django.db import Error as DatabaseError

        _set_up()
        from ringfence.projection import cluster_topics

        try:
            return cluster_topics.recall()
        except DatabaseError as error:
            log.warning("The database does not answer, so its ids of the topics are not compared: %s", error)
            return None

    def watch(self, ids: TopicIds, stop: threading.Event, end: Callable[[], None]) -> None:
        """Watch until `stop`. Call `end` if this worker must not continue. A lost events topic is created again."""
        by_name = {one.name: (role, one) for role, one in ids.topics.items()}
        topics = TopicWatch(self._connection, {one.name: one.id for one in ids.topics.values()})
        while not stop.wait(_TICK_SECONDS):
            try:
                odd = topics.look(time.monotonic())
            except FencingError as error:
                log.info("The topics cannot be checked: %s", error)
                continue
            lost = [Loss(by_name[name][0], name, by_name[name][1].id, topic_id) for name, topic_id in odd.items()]
            if not lost:
                continue
            if {one.role for one in lost} == {EVENTS}:
                self._renew_events(lost[0])
                by_name.pop(lost[0].topic)
                topics = TopicWatch(self._connection, {name: one.id for name, (_, one) in by_name.items()})
                continue
            precious = [one for one in lost if one.role in PRECIOUS]
            if precious:
                log.error("%s", explanation(precious))
                _tell(explanation(precious))
            else:
                log.error("Of the cluster's topics, %s: this worker ends and starts over with a new one", lost[0])
            end()
            return

    def _renew_events(self, loss: Loss) -> None:
        log.error("Of the cluster's topics, %s: the cluster continues with a new one", loss)
        if loss.new_id is None:
            create_topics(self._connection, [specs(self._config)[EVENTS]], Deadline.after(_KAFKA_SECONDS))


def _set_up() -> None:
    django_apps.load()


def _tell(reason: str) -> None:
    """Store the reason in the database. Best effort: it may not answer, and the log has the reason anyway."""
    from django.db import Error as DatabaseError
    from django.db import close_old_connections

    _set_up()
    from ringfence.projection import cluster_topics

    try:
        cluster_topics.store_loss(reason)
    except DatabaseError as error:
        log.warning("The database does not answer, so the pages cannot report that a topic is lost: %s", error)
    finally:
        close_old_connections()


def end_on_sigterm() -> None:
    """Have SIGTERM end this process in order, while Celery does not do so yet. Call it on the main thread."""
    signal.signal(signal.SIGTERM, _end)


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)
