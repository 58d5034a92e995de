"""Where a generation's tasks write, by the settings of its connector, and with which credentials to fence them there.

The count record stores these settings, so that the next round knows where the old tasks wrote even if the configuration
has changed. Values are as in the config topic, with their placeholders.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.connectors.sdk.kafka_settings.java_names import BOOTSTRAP, Role, servers
from ringfence.connectors.sdk.kafka_settings.security import SECRETS
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection, bootstrap_of, connection_of

_OVERRIDES: Final = tuple(f"{role}.override." for role in Role)
_PLACES: Final = frozenset({OFFSETS_STORAGE_TOPIC, *(prefix + BOOTSTRAP for prefix in _OVERRIDES)})
_HIDDEN: Final = frozenset(prefix + name for prefix in _OVERRIDES for name in SECRETS)

Settings = Mapping[str, str]


def may_keep_own_offsets(config: Settings) -> bool:
    """Return whether the connector's offsets may be in another topic than the worker's. Only a worker knows for
    certain.
    """
    return OFFSETS_STORAGE_TOPIC in config or f"{Role.PRODUCER}.override.{BOOTSTRAP}" in config


def target_of(config: Settings) -> dict[str, str]:
    """Return the settings that say where records and offsets go, with the credentials."""
    return {
        name: value for name, value in config.items() if name == OFFSETS_STORAGE_TOPIC or name.startswith(_OVERRIDES)
    }


def place_of(target: Settings) -> dict[str, str]:
    """Return only where they go. Between two targets with the same place, nothing is migrated."""
    return {name: value for name, value in target.items() if name in _PLACES}


def without_secrets(target: Settings) -> dict[str, str]:
    """Return what may be kept of a deleted connector's target: its configuration, which held the secrets, is gone."""
    return {name: value for name, value in target.items() if name not in _HIDDEN}


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """A cluster and credentials to fence a generation's ids with. whose: names the credentials in messages."""

    whose: str
    connection: Connection


def list_admin_access(
    target: Settings | None, config: Settings | None, base: Connection, worker_settings: Settings
) -> list[AdminAccess]:
    """Return the credentials for a generation's transactional ids, the best first; all are for the same cluster.

    target: the old generation's; None if Kafka Connect wrote its count record, which names none: then the newest
    configuration is used, as Kafka Connect does. config: the newest, None if the connector is deleted. The old
    credentials may no longer work, so the newest configuration's follow, then the worker's, which are only sent to the
    worker's own cluster. Raises `Invalid` if none of the settings can be used.
    """
    old = target if target is not None else config or {}
    cluster = bootstrap_of(base.bootstrap, worker_settings, old)
    logins = [("the old generation's credentials", old)]
    if config is not None and servers(bootstrap_of(base.bootstrap, worker_settings, config)) == servers(cluster):
        logins.append(("the newest configuration's credentials", config))
    accesses: list[AdminAccess] = []
    problem: Invalid | None = None
    for whose, settings in logins:
        try:
            connection = connection_of(Role.ADMIN, base, worker_settings, settings)
        except Invalid as error:
            problem = problem or error
        else:
            accesses.append(AdminAccess(whose, connection))
    if servers(cluster) == servers(base.bootstrap):
        accesses.append(AdminAccess("the worker's credentials", base))
    if not accesses:
        raise problem or Invalid(f"Nobody knows how to reach {cluster}")
    return [
        access
        for n, access in enumerate(accesses)
        if _login(access) not in [_login(earlier) for earlier in accesses[:n]]
    ]


def _login(access: AdminAccess) -> tuple[str, Settings]:
    return access.connection.bootstrap, access.connection.settings
