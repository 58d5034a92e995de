"""Preflight's checks of the other workers: exactly-once support, and the plugin in the version for a task. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.common_settings import (
    CONNECTOR_CLASS,
    EXACTLY_ONCE_SUPPORT,
    PLUGIN_VERSION,
    SNAPSHOT_TRANSACTION,
    SNAPSHOT_TRANSACTION_DROP_SLOT,
)
from ringfence.connectors.java import versions
from ringfence.connectors.sdk.names import list_first
from ringfence.engine.preflight.subject import MOST_NAMED, Check, Result

_SLOT: Final = "replication slot"
_SLOT_NAME: Final = "slot.name"


def check_slot(slot: str, committed: bool | None, config: Mapping[str, str]) -> Check:
    """Check the replication slot. slot: the one that Debezium's first snapshot would find, "" for none; committed:
    whether the connector has source offsets, None if unknown.
    """
    if not slot:
        return Check(_SLOT, Result.OK, "It does not exist yet: the first snapshot creates it.", key=_SLOT_NAME)
    if committed:
        return Check(_SLOT, Result.OK, f"Slot {slot} exists, and source offsets are committed.", key=_SLOT_NAME)
    if committed is None:
        return unknown_slot("whether source offsets are committed cannot be read now")
    one, drops = (
        config.get(name, "").strip().lower() for name in (SNAPSHOT_TRANSACTION, SNAPSHOT_TRANSACTION_DROP_SLOT)
    )
    if one == drops == "true":
        text = f"Slot {slot} exists, and no source offset is committed: the task drops it before the snapshot."
        return Check(_SLOT, Result.OK, text, key=_SLOT_NAME)
    text = (
        f"Slot {slot} exists, and no source offset is committed: an interrupted snapshot has left it, or another "
        "client created it. Changes made around the beginning of the next snapshot would be repeated."
    )
    remedy = (
        f"Drop it with SELECT pg_drop_replication_slot('{slot}'), or set {SNAPSHOT_TRANSACTION}=true and "
        f"{SNAPSHOT_TRANSACTION_DROP_SLOT}=true."
    )
    return Check(_SLOT, Result.FAILED, text, remedy, _SLOT_NAME)


def unknown_slot(why: str) -> Check:
    """Return the finding if the database or Kafka did not answer."""
    text = f"It is unknown whether there is an old slot: {why}"
    return Check(_SLOT, Result.UNKNOWN, text, "Check the connector's database settings.", _SLOT_NAME)


_NAME: Final = "plugin versions"

Versions = Mapping[str, Mapping[str, Sequence[str]]]
"""The versions by worker and class, the newest first."""


def check_versions(class_name: str, requirement: str, workers: Versions) -> Check | None:
    """Return the finding; None if fewer than two workers have reported their plugins. requirement:
    `connector.plugin.version`, "" for the newest.
    """
    if len(workers) < 2:
        return None
    try:
        choices = {
            worker: versions.choose(requirement, plugins.get(class_name, ()), str)
            for worker, plugins in sorted(workers.items())
        }
    except ValueError:  # the validation reports it
        return None
    missing = [worker for worker, version in choices.items() if version is None]
    if missing:
        plugin = f"{class_name} {requirement}".strip()
        text = (
            f"{list_first(missing, MOST_NAMED)} {'have' if len(missing) > 1 else 'has'} no {plugin}: a task that is "
            "placed there fails."
        )
        remedy = "Install it there, too: from the page Install a plugin, or with ringfence plugins install."
        return Check(_NAME, Result.FAILED, text, remedy, PLUGIN_VERSION if requirement else CONNECTOR_CLASS)
    if len(set(choices.values())) > 1:
        differences = list_first([f"{worker} runs {version}" for worker, version in choices.items()], MOST_NAMED)
        text = f"The workers differ: {differences}. The version that a task runs depends on its worker."
        remedy = f"Install the same version on every worker, or name one that all have in {PLUGIN_VERSION}."
        return Check(_NAME, Result.FAILED, text, remedy, PLUGIN_VERSION)
    version = next(iter(choices.values()))
    return Check(_NAME, Result.OK, f"Each of {len(choices)} workers has {class_name} {version}.", key=PLUGIN_VERSION)


def unknown_versions(class_name: str) -> Check:
    """Return the finding if the workers' plugin lists cannot be read."""
    text = f"Which workers have {class_name} cannot be read from the database now."
    return Check(_NAME, Result.UNKNOWN, text, "Try again when the database answers.")


def check_modes(modes: Mapping[str, str] | None, *, required: bool) -> Check | None:
    """Return the finding for live workers without exactly.once.source.support=enabled; None if there are none.

    modes: of all live workers; None if unknown, and then there is no finding.
    """
    behind = {worker: mode for worker, mode in sorted((modes or {}).items()) if mode != "enabled"}
    if not behind:
        return None
    workers = list_first([f"{worker} ({mode})" for worker, mode in behind.items()], MOST_NAMED)
    key = EXACTLY_ONCE_SUPPORT
    text = f"Not every worker has exactly-once source support enabled: {workers}."
    remedy = "Set exactly.once.source.support=enabled on these workers, and restart them."
    return Check(key, Result.FAILED if required else Result.UNKNOWN, text, remedy, key, decides=required)


def requires_exactly_once(config: Mapping[str, str]) -> bool:
    """Return whether the configuration has `exactly.once.support=required`."""
    return config.get(EXACTLY_ONCE_SUPPORT, "requested").strip().lower() == "required"
