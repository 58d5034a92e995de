"""Checks before a connector runs whether it will be exactly once, and whether it has the permissions (KIP-618)."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from ringfence.connectors.common_settings import EXACTLY_ONCE_SUPPORT
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, transaction_boundary
from ringfence.engine.config_topic import ReadState, read_whole
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import FindSlot, ReadExactlyOnceSupport
from ringfence.engine.plugins.errors import BadRequest, PluginError, UnknownPlugin
from ringfence.engine.plugins.host import version_key
from ringfence.engine.preflight import cluster_checks, other_workers
from ringfence.engine.preflight.client_overrides import warnings_of
from ringfence.engine.preflight.other_workers import (
    Versions,
    check_modes,
    check_versions,
    requires_exactly_once,
    unknown_versions,
)
from ringfence.engine.preflight.subject import Check, Result, Subject
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreflightInput:
    """A connector's configuration, and what the worker knows about it.

    support: what the connector declares (supported, unsupported, unknown); boundaries: whether it can define
    transactions; known_tasks: see `Subject`; warnings: settings that are ignored; modes: of all live workers, None if
    unknown; boundary: the effective `transaction.boundary`.
    """

    config: Mapping[str, str]
    support: str
    boundaries: bool
    known_tasks: Callable[[int], int | None]
    warnings: Mapping[str, str]
    modes: Mapping[str, str] | None = None
    boundary: str = "poll"


def examine(
    config: Mapping[str, str],
    worker: WorkerConfig,
    plugins: PluginHost,
    limit: Deadline,
    modes: Callable[[Deadline], Mapping[str, str] | None] = lambda _: None,
    offsets: Callable[[Deadline], bool | None] = lambda _: None,
    versions: Callable[[], Versions | None] = dict,
    read_state: ReadState | None = None,
) -> list[Check]:
    """Return all checks of a configuration. Raises `PluginError` if its connector class is not installed.

    offsets: returns whether a source offset of its name is committed, None if that cannot be read; versions: returns
    the plugin versions that are installed on each worker, None if that cannot be read.
    """
    try:
        support, boundaries, boundary = plugins.ask(
            ReadExactlyOnceSupport(config), max(0.1, limit.slice(plugins.call_seconds))
        )
    except (UnknownPlugin, BadRequest):
        raise
    except PluginError as error:
        log.warning("Connector %s could not be asked: %s", config.get("name"), error.message)
        support, boundaries, boundary = "unknown", False, transaction_boundary(config)
    name = ConnectorName(config.get("name", ""))
    request = PreflightInput(
        config,
        support,
        boundaries,
        lambda _: read_known_tasks(name, worker, limit, read_state),
        warnings_of(config, worker),
        modes(Deadline.after(limit.slice(5))),
        boundary,
    )
    others = _other_workers(config, plugins, limit, versions())
    return [*others, *checks(request, worker), *_slot(config, plugins, limit, offsets)]


def _other_workers(
    config: Mapping[str, str], plugins: PluginHost, limit: Deadline, workers: Versions | None
) -> Iterator[Check]:
    """Check for workers on which its plugin, or the requested version of it, is missing."""
    plugin, requirement = version_key(config)
    class_name = plugins.class_of(plugin, max(0.1, limit.slice(plugins.call_seconds)))
    if class_name is None:
        return
    check = unknown_versions(class_name) if workers is None else check_versions(class_name, requirement, workers)
    if check is not None:
        yield check


def _slot(
    config: Mapping[str, str], plugins: PluginHost, limit: Deadline, offsets: Callable[[Deadline], bool | None]
) -> Iterator[Check]:
    """Check what Debezium's first snapshot would find in a PostgreSQL database."""
    try:
        slot = plugins.ask(FindSlot(config), max(0.1, limit.slice(plugins.call_seconds)))
    except PluginError as error:
        yield other_workers.unknown_slot(error.message)
        return
    if slot is not None:
        yield other_workers.check_slot(slot, offsets(Deadline.after(limit.slice(10))) if slot else None, config)


def count_known_tasks(connector: ConnectorState) -> int:
    """Return how many transactional ids of a connector belong to this cluster."""
    return max(len(connector.tasks), connector.count.tasks if connector.count else 0)


def read_known_tasks(
    name: ConnectorName, worker: WorkerConfig, limit: Deadline, read_state: ReadState | None = None
) -> int | None:
    """Return the same at the end of the config topic; None if it cannot be read."""
    read_state = read_state or partial(read_whole, worker, worker.connection("ringfence-preflight"))
    try:
        connector = read_state(Deadline.after(limit.slice(10))).connector(name)
    except FencingError as error:
        log.info("Preflight of %s: %s", name, error)
        return None
    return count_known_tasks(connector)


def checks(request: PreflightInput, worker: WorkerConfig) -> list[Check]:
    """Return all checks, in the order in which people should read them. Takes seconds if brokers do not answer."""
    subject = Subject(request.config, worker, request.known_tasks)
    own_checks = [*_support(request, worker), *_boundary(request), *_ignored_settings(request)]
    return [*own_checks, *cluster_checks.checks(subject)]


def _support(request: PreflightInput, worker: WorkerConfig) -> Iterator[Check]:
    """KIP-618, "When exactly-once support is required": supported, unsupported, or null, which is unknown."""
    key, required = EXACTLY_ONCE_SUPPORT, requires_exactly_once(request.config)
    result = Result.FAILED if required else Result.UNKNOWN
    if worker.mode != "enabled":
        text = "This worker does not have exactly-once source support enabled."
        remedy = "Set exactly.once.source.support=enabled on every worker."
        yield Check(key, result, text, remedy, key, decides=required)
        return
    if (behind := check_modes(request.modes, required=required)) is not None:
        yield behind
    match request.support:
        case "supported":
            yield Check(
                key, Result.OK, "The connector declares that it is exactly once with this configuration.", key=key
            )
        case "unsupported":
            text = "The connector declares that it is not exactly once with this configuration."
            remedy = "See its documentation for the settings that it needs."
            yield Check(key, Result.FAILED, text, remedy, key, decides=required)
        case _:
            text = "The connector does not declare whether it is exactly once."
            remedy = f"Read its documentation; if that promises exactly-once, use {key}=requested."
            yield Check(key, result, text, remedy, key, decides=required)


def _boundary(request: PreflightInput) -> Iterator[Check]:
    key = TRANSACTION_BOUNDARY
    if request.boundary != "connector":
        return
    if request.boundaries:
        addition = "" if request.config.get(key, "").strip() else ", and has chosen to: they need no setting"
        yield Check(
            key, Result.OK, f"The connector can define transactions with this configuration{addition}.", key=key
        )
    else:
        text = "The connector cannot define transactions with this configuration, or does not say that it can."
        yield Check(key, Result.FAILED, text, "Use transaction.boundary=poll or interval.", key, decides=True)


def _ignored_settings(request: PreflightInput) -> Iterator[Check]:
    for name, text in request.warnings.items():
        yield Check("ignored setting", Result.FAILED, text, f"Remove {name}.", name)
