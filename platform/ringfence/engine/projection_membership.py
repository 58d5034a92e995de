"""Chooses the worker that projects the topics into the database: the owner of the partition in the group
`${group.id}-projection`.
"""

import threading

from ringfence import django_apps
from ringfence.fencing.ids import member_client_id
from ringfence.fencing.kafka.membership import GroupMembership
from ringfence.fencing.topics.status import WorkerRecord
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.worker_config import WorkerConfig


class ProjectionMembership:
    """Runs the projector on the worker that the group has chosen. If two run at once, they do no harm."""

    def __init__(self, config: WorkerConfig, worker: WorkerRecord, ids: TopicIds | None = None) -> None:
        self._config = config
        self._ids = ids
        self._client_id = member_client_id(worker.worker, worker.incarnation)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        django_apps.load()
        membership = GroupMembership(
            self._config.connection(self._client_id),
            f"{self._config.group_id}-projection",
            self._config.config_topic,
            self._client_id,
            lambda _metadata: self._begin(),
            self._end,
            session_timeout_ms=self._config.number("session.timeout.ms"),
            max_poll_interval_ms=self._config.number("max.poll.interval.ms"),
        )
        try:
            while not stop.is_set():
                membership.poll(0.5)
        finally:
            self._end()
            membership.close()

    def _begin(self) -> None:
        if self._thread is not None and self._thread.is_alive() and not self._over.is_set():
            return
        from ringfence.projection.change_notifications import RedisNotices
        from ringfence.projection.projector import Projector

        self._over = threading.Event()
        projector = Projector(self._config, RedisNotices(), self._ids)
        self._thread = threading.Thread(target=projector.run, args=(self._over,), name="projector", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(10)
