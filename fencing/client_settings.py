"""The effective settings of one connector's clients: the worker's, under the connector's own overrides. Pure.

Layers, later ones on top: the worker's connection, its `producer.` keys (`consumer.`, `admin.`), and the connector's
`producer.override.` keys. Everything runs on the worker's cluster yet, so a bootstrap list must name that one.
"""

from collections.abc import Mapping
from typing import Final

from fencing.errors import Invalid
from fencing.kafka.overrides import BOOTSTRAP, RULES, TRANSACTION_TIMEOUT, Role, Translated, merged, servers
from fencing.kafka.security import overlay
from fencing.kafka.settings import Connection

_ANY_CLIENT: Final = frozenset(rule.to for rule in RULES.values() if len(rule.roles) == len(Role))
_DEFAULT_TIMEOUT_MS: Final = 60_000

Settings = Mapping[str, str]


def effective(role: Role, worker_settings: Settings, connector_config: Settings) -> Translated:
    """Both layers of one role, translated; with what is wrong with them."""
    return merged(role, [(f"{role}.", worker_settings), (f"{role}.override.", connector_config)])


def _sound(role: Role, base: Connection, worker_settings: Settings, connector_config: Settings) -> dict[str, str]:
    found = effective(role, worker_settings, connector_config)
    if found.errors:
        raise Invalid(" ".join(found.errors.values()))
    elsewhere = found.settings.pop(BOOTSTRAP, base.bootstrap)
    if servers(elsewhere) != servers(base.bootstrap):
        raise Invalid(f"{role}.override.{BOOTSTRAP} names another cluster than the worker's: not supported yet")
    return found.settings


def connection_of(role: Role, base: Connection, worker_settings: Settings, connector_config: Settings) -> Connection:
    """How this connector's clients of a role reach the cluster. Raises `Invalid` where its settings cannot be used."""
    settings = _sound(role, base, worker_settings, connector_config)
    client_id = settings.pop("client.id", base.client_id)
    shared = {name: value for name, value in settings.items() if name in _ANY_CLIENT or name.startswith("ssl.")}
    reading = {name: value for name, value in settings.items() if name not in shared} if role is Role.CONSUMER else {}
    return Connection(base.bootstrap, overlay(base.settings, shared), client_id, reading)


def producer_overrides(
    base: Connection, worker_settings: Settings, connector_config: Settings, timeout_ms: int
) -> dict[str, object]:
    """librdkafka's settings for the task's producer, on top of the runtime's own. Raises `Invalid`.

    timeout_ms: the transaction timeout that the task has settled on. No delivery and no request may take longer, so
    larger ones are cut to it.
    """
    settings: dict[str, object] = dict(_sound(Role.PRODUCER, base, worker_settings, connector_config))
    settings.pop(TRANSACTION_TIMEOUT, None)
    for name in ("message.timeout.ms", "socket.timeout.ms"):
        if name in settings:
            settings[name] = str(min(int(str(settings[name])), timeout_ms))
    return settings


def transaction_timeout_ms(worker_settings: Settings, connector_config: Settings) -> int:
    """As configured. The default stands in for one that cannot be read: `producer_overrides` says what is wrong."""
    found = effective(Role.PRODUCER, worker_settings, connector_config).settings.get(TRANSACTION_TIMEOUT)
    text = found or worker_settings.get(TRANSACTION_TIMEOUT, "")
    return int(text) if text.isdecimal() else _DEFAULT_TIMEOUT_MS
