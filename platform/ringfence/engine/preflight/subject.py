"""The subject of preflight: a connector's configuration, and the worker that would run it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.connectors.sdk.names import list_first
from ringfence.engine.preflight.client_overrides import has_placeholder
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.connection import resolve_settings, timeout_in
from ringfence.fencing.kafka.permission_probes import Permission, Prober
from ringfence.fencing.offsets.stores import OffsetStores
from ringfence.fencing.task.boundaries import Boundaries
from ringfence.worker_config import WorkerConfig


class Result(StrEnum):
    """The result of a check."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


MOST_NAMED: Final = 5
"""How many topics, ids or workers a message names."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. key: the setting it belongs to, if any; remedy: what to do if it is not ok.

    decides: if it failed, the connector cannot work here, so validation refuses it (`preflight.validation`).
    Others are warnings: they can be fixed without changing the configuration, or only concern the worker.
    """

    name: str
    result: Result
    message: str
    remedy: str = ""
    key: str = ""
    decides: bool = False

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "result": str(self.result), "decides": self.refuses}

    @property
    def refuses(self) -> bool:
        """Whether it failed and makes validation refuse the configuration."""
        return self.decides and self.result is Result.FAILED


def check_granted(
    principal: str,
    operation: str,
    resource: str,
    answers: Mapping[str, Permission],
    key: str = "",
    *,
    decides: bool = True,
) -> Check:
    """Check one row of the KIP's tables. The message names the denied resources."""
    name = f"{principal} {operation} {resource}"
    if resource == "Topic":
        name += f" {' '.join(answers)}"
    denials = [each for each, may in answers.items() if may is Permission.NO]
    if denials:
        text = f"The {principal}'s principal has no {operation} on {resource} {list_first(denials, MOST_NAMED)}."
        remedy = f"Grant {operation} on {resource} {denials[0]}, or on its prefix."
        return Check(name, Result.FAILED, text, remedy, key, decides=decides)
    first = next(iter(answers), "")
    if not answers or Permission.UNKNOWN in answers.values():
        text = f"It is unknown whether the {principal}'s principal has {operation} on {resource} {first}."
        return Check(name, Result.UNKNOWN, text, "Compare with the table in the documentation.", key)
    return Check(name, Result.OK, f"{operation} on {resource} {list_first(list(answers), 1)}.", key=key)


PROBERS: Final = ClientPool(Prober)


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
