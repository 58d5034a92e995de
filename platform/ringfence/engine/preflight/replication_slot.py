"""Preflight's findings about a PostgreSQL replication slot that an interrupted snapshot may have left. Pure."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.java_settings import SNAPSHOT_TRANSACTION, SNAPSHOT_TRANSACTION_DROP_SLOT
from ringfence.engine.preflight.check import Check, Result

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
