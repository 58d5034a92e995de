"""The record on which a task failed: shown to people as part of the task's status."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

LONGEST: Final = 200
"""The maximum length of the record's value in a status, in characters."""

_TEXTS: Final = ("stage", "class_name", "alias", "topic", "partition", "offset", "value")


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """stage, class_name: where it failed; alias: the transform's, "" for a converter; settings: the names of the
    settings that configure that transform or converter; partition, offset: source partition and source offset as
    JSON; value: the beginning of the record's value, without the connector's secrets."""

    stage: str
    class_name: str
    alias: str
    settings: tuple[str, ...]
    topic: str
    partition: str
    offset: str
    value: str

    def fields(self) -> dict[str, object]:
        """Return the fields of a status record."""
        return asdict(self)


def read(value: object) -> RecordFailure | None:
    """The inverse of `fields`; None if the value is not a mapping."""
    if not isinstance(value, Mapping):
        return None
    entries: Mapping[str, object] = value
    settings = entries.get("settings")
    names = tuple(str(each) for each in settings) if isinstance(settings, list | tuple) else ()
    text = {name: str(entries.get(name) or "") for name in _TEXTS}
    return RecordFailure(settings=names, **text)


def shorten(value: str) -> str:
    """Return at most LONGEST characters. Redact the value first: a secret that is cut off is not recognised."""
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
