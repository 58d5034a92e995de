"""Where a generation's tasks write, in the words of its connector's configuration, and how to get there to fence them.

The count record keeps it, so that the next round knows where the old tasks wrote although the configuration is another
one by then. Values stay as they stand in the config topic, placeholders included.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.delivery_settings import OFFSETS_STORAGE_TOPIC
from ringfence.connectors.kafka_settings.java_names import BOOTSTRAP, Role, servers
from ringfence.connectors.kafka_settings.security import SECRETS
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.client_settings import bootstrap_of, connection_of
from ringfence.fencing.kafka.settings import Connection

_OVERRIDES: Final = tuple(f"{role}.override." for role in Role)
_PLACES: Final = frozenset({OFFSETS_STORAGE_TOPIC, *(prefix + BOOTSTRAP for prefix in _OVERRIDES)})
_HIDDEN: Final = frozenset(prefix + name for prefix in _OVERRIDES for name in SECRETS)

Settings = Mapping[str, str]


def may_keep_own_offsets(config: Settings) -> bool:
    """Whether the connector's offsets may be in another topic than the worker's; a worker knows for certain."""
    return OFFSETS_STORAGE_TOPIC in config or f"{Role.PRODUCER}.override.{BOOTSTRAP}" in config


def target_of(config: Settings) -> dict[str, str]:
    """The settings that say where records and offsets go, and how they get there."""
    return {
        name: value for name, value in config.items() if name == OFFSETS_STORAGE_TOPIC or name.startswith(_OVERRIDES)
    }


def place_of(target: Settings) -> dict[str, str]:
    """Only where they go: two targets with the same place need nothing to be carried."""
    return {name: value for name, value in target.items() if name in _PLACES}


def without_secrets(target: Settings) -> dict[str, str]:
    """What may be kept of a deleted connector's: its configuration, which held the secrets, is gone."""
    return {name: value for name, value in target.items() if name not in _HIDDEN}


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """One way to fence a generation's ids. whose: the credentials, for people."""

    whose: str
    connection: Connection


def ways(
    target: Settings | None, config: Settings | None, base: Connection, worker_settings: Settings
) -> list[AdminAccess]:
    """How to reach a generation's transactional ids, the best way first; all of them lead to the same cluster.

    target: the old generation's; None where Kafka Connect wrote its count, which names none: then the newest
    configuration stands in, as it does in Kafka Connect. config: the newest, None where the connector is deleted.
    Old credentials may no longer work, so the newest configuration's follow, and the worker's, which are sent to the
    worker's own cluster only. Raises `Invalid` where none of the settings can be used.
    """
    old = target if target is not None else config or {}
    cluster = bootstrap_of(base.bootstrap, worker_settings, old)
    wanted = [("the old generation's credentials", old)]
    if config is not None and servers(bootstrap_of(base.bootstrap, worker_settings, config)) == servers(cluster):
        wanted.append(("the newest configuration's credentials", config))
    found: list[AdminAccess] = []
    problem: Invalid | None = None
    for whose, settings in wanted:
        try:
            connection = connection_of(Role.ADMIN, base, worker_settings, settings)
        except Invalid as error:
            problem = problem or error
        else:
            found.append(AdminAccess(whose, connection))
    if servers(cluster) == servers(base.bootstrap):
        found.append(AdminAccess("the worker's credentials", base))
    if not found:
        raise problem or Invalid(f"Nobody knows how to reach {cluster}")
    return [way for n, way in enumerate(found) if _login(way) not in [_login(earlier) for earlier in found[:n]]]


def _login(way: AdminAccess) -> tuple[str, Settings]:
    return way.connection.bootstrap, way.connection.settings
