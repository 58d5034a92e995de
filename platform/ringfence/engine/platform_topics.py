"""Creates and checks the worker's topics. A lost config or offsets topic is never created again.

At a worker's start: 1 the ids of the topics are requested; 2 the stored ids are read (`fencing.topics.topic_ids`); 3 a
config or offsets topic that is gone, or has another id, raises `TopicLost`; 4 missing topics are created. A lost status
or events topic is created again, since tasks and workers repeat their reports.

`TopicGuard` watches them from then on, and fails closed. If the config or offsets topic is gone, or was replaced, the
worker ends its tasks and itself. After its restart it waits, outside of the group and without tasks, until the topic is
back, or until an operator has accepted or restored another one. While it waits, its log, the database and the alerts
show the reason.
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
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable, TopicLost
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.partitioner import partition_of
from ringfence.fencing.kafka.topic_admin import TopicSpec, TopicWatch, create_topics, topic_identity, topic_ids
from ringfence.fencing.kafka.topic_offsets import end_offsets
from ringfence.fencing.leader.term import Term, TopicRecord
from ringfence.fencing.offsets.stores import offsets_topic_spec
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import StatusState
from ringfence.fencing.topics.topic_ids import (
    CONFIG,
    EVENTS,
    KEY,
    OFFSETS,
    PRECIOUS,
    ROLES,
    STATUS,
    Loss,
    Topic,
    TopicIds,
    Topics,
    dumps,
    explanation,
    loads,
    losses,
    newest,
    offsets_key,
)
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_COMPACTED = {"cleanup.policy": "compact"}
_EVENTS = {"cleanup.policy": "delete", "retention.ms": str(24 * 3600 * 1000)}

RecallTopicIds = Callable[[], TopicIds | None]


def topics_of(config: WorkerConfig, ids: TopicIds | None = None) -> Topics:
    """Return the names of the topics, and the ids of those without which an attempt must end."""
    by_role = {role: one.id for role, one in (ids.topics if ids else {}).items()}
    names = (config.config_topic, config.offsets_topic, config.status_topic, config.events_topic)
    return Topics(*names, by_role.get(CONFIG, ""), by_role.get(OFFSETS, ""))


def names_of(config: WorkerConfig) -> dict[str, str]:
    """Return the topics' names by role."""
    return {
        CONFIG: config.config_topic,
        OFFSETS: config.offsets_topic,
        STATUS: config.status_topic,
        EVENTS: config.events_topic,
    }


def specs(config: WorkerConfig) -> dict[str, TopicSpec]:
    """Return the topics to create by role, with Kafka Connect's partitions and cleanup policies.

    The offsets topic also gets the settings of `offset.storage.*`, except that it is always compacted.
    """
    return {
        CONFIG: TopicSpec(config.config_topic, 1, config.number("config.storage.replication.factor"), _COMPACTED),
        OFFSETS: offsets_topic_spec(config.offsets_topic, config.settings),
        STATUS: TopicSpec(
            config.status_topic,
            config.number("status.storage.partitions"),
            config.number("status.storage.replication.factor"),
            _COMPACTED,
        ),
        EVENTS: TopicSpec(
            config.events_topic,
            config.number("events.storage.partitions"),
            config.number("events.storage.replication.factor"),
            _EVENTS,
        ),
    }


def ensure_topics(
    connection: Connection, config: WorkerConfig, deadline: Deadline, recall_ids: RecallTopicIds = lambda: None
) -> TopicIds:
    """Make sure that the four topics exist, and return their ids. Raises `TopicLost`; then nothing is created.

    recall_ids: returns the ids in the database, None if it has no connectors.
    """
    topics = present(connection, config, deadline)  # 1
    ids = recall(connection, config, deadline, recall_ids())  # 2
    lost = losses(ids, topics) if ids is not None else []
    if precious := [one for one in lost if one.role in PRECIOUS]:  # 3
        raise TopicLost(explanation(precious))
    for one in lost:
        log.error("Of the cluster's topics, %s: the cluster continues with a new one, and reports are repeated", one)
    if missing := [spec for role, spec in specs(config).items() if topics[role] is None]:
        create_topics(connection, missing, deadline)  # 4
    return (ids or TopicIds()).after(_await_topics(connection, config, deadline))


def present(connection: Connection, config: WorkerConfig, deadline: Deadline) -> dict[str, Topic | None]:
    """Return the topics that the settings name, by role; None for a missing one."""
    names = names_of(config)
    ids = topic_ids(connection, list(names.values()), deadline)
    return {role: Topic(name, id_) if (id_ := ids[name]) is not None else None for role, name in names.items()}


def _await_topics(connection: Connection, config: WorkerConfig, deadline: Deadline) -> dict[str, Topic]:
    names = names_of(config)
    return {role: Topic(names[role], topic_identity(connection, names[role], deadline)[0]) for role in ROLES}


def recall(
    connection: Connection, config: WorkerConfig, deadline: Deadline, database_ids: TopicIds | None
) -> TopicIds | None:
    """Return the newest ids stored in the topics or in the database (`database_ids`); None if there are none.

    The small topics are read first, the offsets topic only if they have none.
    """
    topics = present(connection, config, deadline)
    candidates: list[TopicIds] = []
    keys = ((CONFIG, KEY.encode()), (STATUS, KEY.encode()), (OFFSETS, offsets_key(config.group_id)))
    for role, key in keys:
        topic = topics[role]
        sure = bool(candidates) or (role == OFFSETS and database_ids is not None)
        if topic is not None and not sure:
            values = _records(connection, topic.name, key, deadline)
            candidates += [one for value in values if (one := loads(value)) is not None]
    return newest([database_ids, *candidates])


def _records(connection: Connection, topic: str, key: bytes, deadline: Deadline) -> list[bytes | None]:
    """Return the values of a key, oldest first. Only its partition is read, since the offsets topic may be large."""
    _, partitions = topic_identity(connection, topic, deadline)
    ends = end_offsets(connection, topic, partitions, deadline)
    start = {**ends, partition_of(key, len(partitions)): 0}
    reader = TopicLog(connection, topic, start, deadline=deadline)
    try:
        records = reader.catch_up(deadline, key_filter=lambda each: each == key, ends=ends)
        return [record.value for record in (*records, *reader.ahead)]
    finally:
        reader.close()


_KAFKA_SECONDS = 60.0
_PATIENCE_SECONDS = 180.0
_LOOK_SECONDS = 2.0
_TICK_SECONDS = 0.25
_REMEMBER_SECONDS = 8.0


def remember_topics(ids: TopicIds, config: WorkerConfig, term: Term, status: StatusState, reporter: Reporter) -> None:
    """Write the ids to each topic that has older ones or none."""
    stored_ids = term.state.topic_ids
    if stored_ids is None or stored_ids.version < ids.version:
        copy = TopicRecord(config.offsets_topic, offsets_key(config.group_id), dumps(ids))
        term.write(lambda _state: [ids, copy], Deadline.after(_REMEMBER_SECONDS))
    stored_ids = status.topic_ids
    if stored_ids is None or stored_ids.version < ids.version:
        reporter.status(ids)


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
