"""Validates a connector's client overrides: the policy (KIP-458), names, values, and the addresses they lead to.

The plugin process validates all other settings. These are for the runtime's clients, so the worker checks them.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from ringfence.connectors.api import ConfigType
from ringfence.connectors.api.config_def import ConfigKey, ConfigValue
from ringfence.connectors.api.config_types import Importance
from ringfence.connectors.common_settings import (
    OFFSETS_STORAGE_TOPIC,
    SNAPSHOT_TRANSACTION_TIMEOUT_MS,
    TRANSACTION_BOUNDARY_INTERVAL_MS,
)
from ringfence.connectors.sdk.kafka_settings.java_names import BOOTSTRAP, TRANSACTION_TIMEOUT, Role
from ringfence.connectors.sdk.kafka_settings.security import SECRETS
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import (
    find_acks_errors,
    find_foreign_addresses,
    resolve_settings,
    transaction_timeout_ms,
)
from ringfence.fencing.task.boundaries import Boundaries
from ringfence.worker_config import LONGEST_TRANSACTION, WorkerConfig

log = logging.getLogger(__name__)

_PRINCIPAL: Final = frozenset({"security.protocol", "sasl.jaas.config", "sasl.mechanism"})
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_WHERE: Final = frozenset({OFFSETS_STORAGE_TOPIC, *(f"{role}.override.{BOOTSTRAP}" for role in Role)})


def overrides_of(config: Mapping[str, str | None]) -> dict[str, Role]:
    """Return the overrides in a configuration by full name. Those without a value are reported elsewhere."""
    return {
        name: role
        for role in Role
        for name, value in config.items()
        if name.startswith(f"{role}.override.") and value is not None
    }


def warnings_of(config: Mapping[str, str | None], worker: WorkerConfig) -> dict[str, str]:
    """Return a warning for each ignored setting, also of the worker, by full name."""
    overrides = _given_overrides(config)
    return {
        name: text
        for role in Role
        for name, text in resolve_settings(role, worker.settings, overrides).warnings.items()
    }


def errors_of(config: Mapping[str, str | None], worker: WorkerConfig) -> dict[str, list[str]]:
    """Return the errors by setting: of client overrides, and of placeholders in settings that must not have any."""
    overrides = _given_overrides(config)
    errors: dict[str, list[str]] = {}
    for name in sorted(_WHERE & overrides.keys()):
        if has_placeholder(overrides[name]):
            text = (
                f"{name} decides where records and offsets go, so a placeholder is not allowed: write the value here."
            )
            errors.setdefault(name, []).append(text)
    if OFFSETS_STORAGE_TOPIC not in errors:
        errors.update(_own_topic_errors(overrides.get(OFFSETS_STORAGE_TOPIC, "").strip(), overrides, worker))
    error_maps = [
        _forbidden(config, worker),
        *(resolve_settings(role, worker.settings, overrides).errors for role in Role),
    ]
    if worker.mode == "enabled":
        error_maps.append({**find_acks_errors(worker.settings, overrides), **_too_long(overrides, worker)})
    for each in error_maps:
        for name, text in each.items():
            errors.setdefault(name, []).append(text)
    for name, text in find_foreign_addresses(worker.bootstrap, worker.settings, overrides).items():
        if name not in errors:
            errors[name] = [text]
    return errors


def _forbidden(config: Mapping[str, str | None], worker: WorkerConfig) -> dict[str, str]:
    """Return an error for each setting that the worker's policy does not allow."""
    policy = worker.override_policy
    return {
        name: f"The '{policy}' policy does not allow '{name}' to be overridden in the connector configuration."
        for name, role in overrides_of(config).items()
        if not allows(policy, name.removeprefix(f"{role}.override."))
    }


def _too_long(config: Mapping[str, str], worker: WorkerConfig) -> dict[str, str]:
    """Return the errors of the transaction timeout: if a task is lost, its readers may have to wait that long."""
    limit = worker.number(LONGEST_TRANSACTION)
    remedy = f"raise the worker's {LONGEST_TRANSACTION}={limit}, up to the brokers' transaction.max.timeout.ms"
    timeout_ms = transaction_timeout_ms(worker.settings, config)
    if timeout_ms > limit:
        name = f"{Role.PRODUCER}.override.{TRANSACTION_TIMEOUT}"
        return {name: f"Transactions may be open for {limit} ms at most, not {timeout_ms}: lower {name}, or {remedy}."}
    try:
        boundaries = Boundaries.of(config, worker.number("offset.flush.interval.ms"))
    except Invalid:
        return {}  # the validation of the boundary reports it
    if boundaries.transaction_timeout_ms(timeout_ms) <= limit:
        return {}
    if boundaries.snapshot_ms > limit:
        name = SNAPSHOT_TRANSACTION_TIMEOUT_MS
        why = f"Transactions may be open for {limit} ms at most, not {boundaries.snapshot_ms}"
        return {name: f"{why}: lower {name}, or {remedy}."}
    longest_ms = boundaries.transaction_timeout_ms(timeout_ms)
    name = TRANSACTION_BOUNDARY_INTERVAL_MS
    why = f"Transactions may be open for {limit} ms at most, and three intervals take {longest_ms}"
    return {name: f"{why}: lower {name}, or {remedy}."}


def _own_topic_errors(name: str, config: Mapping[str, str], worker: WorkerConfig) -> dict[str, list[str]]:
    worker_topics = (worker.config_topic, worker.status_topic, worker.events_topic)
    if not name:
        return {}
    if name in (".", "..") or not _TOPIC.fullmatch(name):
        text = f"Invalid value {name} for configuration {OFFSETS_STORAGE_TOPIC}: no topic can have this name."
    elif name in worker_topics:
        text = f"{OFFSETS_STORAGE_TOPIC}: {name} is one of the workers' topics: name another one."
    elif name in (topic.strip() for topic in config.get("topic", "").split(",")):
        text = f"{OFFSETS_STORAGE_TOPIC}: the connector's records go to {name}: offsets need a separate topic."
    else:
        return {}
    return {OFFSETS_STORAGE_TOPIC: [text]}


def allows(policy: str, setting: str) -> bool:
    """Return whether the worker's override policy lets a connector set this client setting."""
    return policy == "All" or (policy == "Principal" and setting in _PRINCIPAL)


def add_to(validation: dict[str, Any], config: Mapping[str, str | None], worker: WorkerConfig) -> dict[str, Any]:
    """Return Kafka Connect's validation object with an entry for each override."""
    errors = errors_of(config, worker)
    for text in warnings_of(config, worker).values():
        log.warning("Connector %s: %s", config.get("name"), text)
    entries: dict[str, dict[str, Any]] = {str(entry["value"]["name"]): entry for entry in validation["configs"]}
    for name, role in overrides_of(config).items():
        if name not in entries:
            entries[name] = _entry(name, role, config[name] or "")
            validation["configs"].append(entries[name])
        group = entries[name]["definition"]["group"]
        if group not in validation["groups"]:
            validation["groups"].append(group)
    for name, texts in errors.items():
        if name not in entries:  # the worker's setting, if an override changes its meaning
            entries[name] = _entry(name, Role(name.partition(".")[0]), "")
            validation["configs"].append(entries[name])
        entries[name]["value"]["errors"].extend(texts)
        validation["error_count"] += len(texts)
    return validation


def _entry(name: str, role: Role, value: str) -> dict[str, Any]:
    secret = name.removeprefix(f"{role}.override.") in SECRETS
    type_ = ConfigType.PASSWORD if secret else ConfigType.STRING
    key = ConfigKey(
        name,
        type_,
        default=None,
        importance=Importance.LOW,
        documentation=f"Overrides the worker's setting for this connector's {role}.",
        group=f"{role.capitalize()} overrides",
    )
    return {"definition": key.info(), "value": ConfigValue(name, value).info(type_)}


def entry_of(name: str) -> dict[str, Any] | None:
    """Return the entry of an override that the configuration does not set; None if it is not an override's name."""
    role, override, _ = name.partition(".override.")
    return _entry(name, Role(role), "") if override and role in set(Role) else None


def has_placeholder(value: str) -> bool:
    """Return whether the value refers to a config provider."""
    return "}" in value.partition("${")[2]


def _given_overrides(config: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}
