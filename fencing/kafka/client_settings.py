"""The effective settings of one connector's clients: the worker's, under the connector's own overrides. Pure.

Layers, later ones on top: the worker's connection, its `producer.` keys (`consumer.`, `admin.`), and the connector's
`producer.override.` keys. A connector has one cluster: the one that its producer writes to, where its source offsets
and its transactional ids are, too. Consumer and admin client go there, whether or not they are told to.
"""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors import egress, worker_limits
from ringfence.connectors.kafka_settings.input_group import session_timeout_ms
from ringfence.connectors.kafka_settings.java_names import (
    BOOTSTRAP,
    RULES,
    TRANSACTION_TIMEOUT,
    Role,
    Translated,
    merge,
    servers,
)
from ringfence.connectors.kafka_settings.security import overlay
from ringfence.connectors.pinned_files import pin_client_files
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.settings import Connection

_ANY_CLIENT: Final = frozenset(rule.to for rule in RULES.values() if len(rule.roles) == len(Role))
_DEFAULT_TIMEOUT_MS: Final = 60_000

Settings = Mapping[str, str]


def effective(role: Role, worker_settings: Settings, connector_config: Settings) -> Translated:
    """Both layers of one role, translated; with what is wrong with them.

    Files that the connector names are read here and now: a client opens what was judged.
    """
    prefix = f"{role}.override."
    mine = {name: value for name, value in connector_config.items() if name.startswith(prefix)}
    settings, unreadable = pin_client_files(mine)
    found = merge(role, [(f"{role}.", worker_settings), (prefix, settings)])
    found.errors.update(unreadable)
    return found


def too_few_acks(worker_settings: Settings, connector_config: Settings) -> dict[str, str]:
    """What a transactional producer cannot do, by the full name of the setting that asks for it; empty where all is."""
    if effective(Role.PRODUCER, worker_settings, connector_config).settings.get("acks", "all") == "all":
        return {}
    name = f"{Role.PRODUCER}.override.acks"
    name, value = (name, connector_config[name]) if name in connector_config else ("producer.acks", "")
    value = value or worker_settings["producer.acks"]
    return {name: f"{name}={value}: a transactional producer needs all. Remove it, or set it to all."}


def bootstrap_of(base: str, worker_settings: Settings, connector_config: Settings) -> str:
    """The cluster that the connector's producer writes to. base: the worker's."""
    for name, settings in (
        (f"{Role.PRODUCER}.override.{BOOTSTRAP}", connector_config),
        (f"{Role.PRODUCER}.{BOOTSTRAP}", worker_settings),
    ):
        if settings.get(name, "").strip():
            return settings[name].strip()
    return base


def elsewhere(base: str, worker_settings: Settings, connector_config: Settings) -> bool:
    """Whether that is another cluster than the worker's, as far as the addresses tell."""
    return servers(bootstrap_of(base, worker_settings, connector_config)) != servers(base)


def astray(base: str, worker_settings: Settings, connector_config: Settings) -> dict[str, str]:
    """Addresses of consumer and admin client that lead to another cluster than the producer's, by their full name."""
    where = bootstrap_of(base, worker_settings, connector_config)
    wrong = {}
    for role in (Role.CONSUMER, Role.ADMIN):
        name = f"{role}.override.{BOOTSTRAP}"
        settings = connector_config
        if name not in settings and f"{Role.PRODUCER}.override.{BOOTSTRAP}" not in connector_config:
            name, settings = f"{role}.{BOOTSTRAP}", worker_settings
        if name in settings and servers(settings[name]) != servers(where):
            wrong[name] = (
                f"{name} names another cluster than the producer's {where}: the transactional ids and source offsets "
                "of a connector are where its producer writes. Give all of them the same addresses, or remove it."
            )
    return wrong


def _sound(role: Role, base: Connection, worker_settings: Settings, connector_config: Settings) -> dict[str, str]:
    found = effective(role, worker_settings, connector_config)
    lost = astray(base.bootstrap, worker_settings, connector_config) if role is not Role.PRODUCER else {}
    wrong = {**found.errors, **{name: text for name, text in lost.items() if name.startswith(f"{role}.")}}
    if wrong:
        raise Invalid(" ".join(wrong.values()))
    return {name: value for name, value in found.settings.items() if name != BOOTSTRAP}


def _is_security(name: str) -> bool:
    return name.startswith(("ssl.", "sasl.", "security."))


def _may_go(addresses: str) -> None:
    try:
        egress.check_servers(egress.Policy(worker_limits.current().egress), addresses)
    except egress.Refused as error:
        raise Invalid(str(error)) from error


def connection_of(role: Role, base: Connection, worker_settings: Settings, connector_config: Settings) -> Connection:
    """How this connector's clients of a role reach its cluster. Raises `Invalid` where its settings cannot be used.

    The worker's own login is for the worker's own cluster and is sent to no other one: there `producer.override.` (or
    the worker's `producer.`) brings one, for consumer and admin client, too, where these have none of their own.
    """
    settings = _sound(role, base, worker_settings, connector_config)
    client_id = settings.pop("client.id", base.client_id)
    shared = {name: value for name, value in settings.items() if name in _ANY_CLIENT or name.startswith("ssl.")}
    reading = {name: value for name, value in settings.items() if name not in shared} if role is Role.CONSUMER else {}
    where = bootstrap_of(base.bootstrap, worker_settings, connector_config)
    if servers(where) == servers(base.bootstrap):
        return Connection(base.bootstrap, overlay(base.settings, shared), client_id, reading)
    _may_go(where)
    if role is not Role.PRODUCER and not any(map(_is_security, shared)):
        lent = _sound(Role.PRODUCER, base, worker_settings, connector_config)
        shared |= {name: value for name, value in lent.items() if _is_security(name)}
    return Connection(where, shared, client_id, reading)


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
    """As configured. The default stands in for one that cannot be read: `producer_overrides` says what is wrong.

    The default is a minute, but for tasks that read a consumer group their session timeout (KIP-447): when a task is
    lost, the group gives its partitions to others after that time, and these may not begin before its open transaction
    has ended, which holds the offsets that they begin at. Nothing is gained where it lives longer than the session.
    `Boundaries.transaction_timeout_ms` sees to three commit intervals.
    """
    found = effective(Role.PRODUCER, worker_settings, connector_config).settings.get(TRANSACTION_TIMEOUT)
    text = found or worker_settings.get(TRANSACTION_TIMEOUT, "")
    return int(text) if text.isdecimal() else session_timeout_ms(connector_config) or _DEFAULT_TIMEOUT_MS
