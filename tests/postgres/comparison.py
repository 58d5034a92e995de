"""Records in a form in which two runs, and two connectors, can be compared."""

import json
from collections.abc import Callable, Sequence
from typing import Any

_CHANGING = {"ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "version", "db"}

Comparable = tuple[str, Any, Any, tuple[str, ...]]
"""Topic, key, value and names of headers; the first two are JSON, with what differs by run replaced."""

Load = Callable[[bytes, str], Any]
"""`schema` and `payload` of a converter's bytes, both as JSON; the prefix in them is replaced."""


def load_json(raw: bytes, prefix: str) -> Any:
    """What JsonConverter has written, with schemas."""
    return json.loads(raw.decode().replace(prefix, "PREFIX"))


def comparable(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    prefix: str,
    read: Load = load_json,
) -> Comparable:
    """prefix: the connector's, for which a common one is put everywhere."""

    def load(raw: bytes | None) -> Any:
        if raw is None:
            return None
        loaded = read(raw, prefix)
        return {"schema": loaded["schema"], "payload": _replace_changing(loaded["payload"])}

    shown = tuple(f"{name}={_text(value)}" if "key" in name else name for name, value in headers)
    return topic.replace(prefix, "PREFIX"), load(key), load(value), shown


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()


def _replace_changing(payload: Any) -> Any:
    """Values only say what kind they are; rows stay as they are."""
    if not isinstance(payload, dict) or "op" not in payload:
        return payload
    shown = {name: _kind(name, value) for name, value in payload.items()}
    return shown | {"source": {name: _kind(name, value) for name, value in payload["source"].items()}}


def _kind(name: str, value: Any) -> Any:
    return type(value).__name__ if name in _CHANGING else value


def by_topic(records: Sequence[Comparable]) -> dict[str, list[Comparable]]:
    found: dict[str, list[Comparable]] = {}
    for record in records:
        found.setdefault(record[0], []).append(record)
    return found
