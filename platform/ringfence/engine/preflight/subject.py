"""The subject of preflight: a connector's configuration, and the worker that would run it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.engine.preflight.check import Check
from ringfence.engine.preflight.client_overrides import has_placeholder
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.client_settings import resolve_settings, timeout_in
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores
from ringfence.fencing.task.boundaries import Boundaries
from ringfence.worker_config import WorkerConfig


@dataclass(frozen=True)  # without slots, for what is cached
class Subject:
    """A connector's configuration, and the worker that would run it.

    known_tasks: returns how many tasks a connector of this name has here, or had last; None if that cannot be read. It
    gets how many it needs to have, so that all transactional ids in use are its own, and need not be more exact.
    """

    config: Mapping[str, str]
    worker: WorkerConfig
    known_tasks: Callable[[int], int | None]

    @property
    def connector(self) -> ConnectorName:
        return ConnectorName(self.config.get("name", ""))

    @property
    def transactional(self) -> bool:
        """Whether its tasks write in transactions on this worker."""
        return self.worker.mode == "enabled"

    @property
    def tasks_max(self) -> int:
        text = self.config.get(TASKS_MAX, "1").strip()
        return max(1, int(text[:10])) if text.isdecimal() else 1

    @property
    def topic(self) -> str:
        """The topic that it writes to; "" if it has no setting `topic`, or if a config provider has its value."""
        topic = self.config.get("topic", "").strip()
        return "" if has_placeholder(topic) else topic

    @cached_property
    def producer_settings(self) -> Mapping[str, str]:
        """The effective settings of its tasks' producers."""
        return resolve_settings(Role.PRODUCER, self.worker.settings, self.config).settings

    @property
    def timeout_ms(self) -> int:
        """The transaction timeout of its tasks."""
        configured_ms = timeout_in(self.producer_settings, self.worker.settings, self.config)
        return self.boundaries.transaction_timeout_ms(configured_ms)

    @property
    def boundaries(self) -> Boundaries:
        return Boundaries.of(self.config, self.worker.number("offset.flush.interval.ms"))


Ask = Callable[[Prober, Subject, OffsetStores], Iterator[Check]]
"""One of preflight's checks of a cluster, with the prober's login. The result is `unknown` if this principal may not
ask. Raises `FencingError` if the cluster does not answer.
"""
