"""The record on which a task failed: shown to people as part of the task's status."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

LONGEST: Final = 200
"""The maximum length of the record's value in a status, in characters."""

NOTE: Final = "Failed on a record: stage "
"""The beginning of the last line of a trace, for readers that only see the trace."""

_TEXTS: Final = ("stage", "class_name", "alias", "topic", "partition", "offset", "value")
_ATTRIBUTE: Final = "ringfence_record_failure"


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
    known: Mapping[str, object] = value
    settings = known.get("settings")
    names = tuple(str(each) for each in settings) if isinstance(settings, list | tuple) else ()
    text = {name: str(known.get(name) or "") for name in _TEXTS}
    return RecordFailure(settings=names, **text)


def attach(error: Exception, failure: RecordFailure) -> None:
    """Attach the failure to the error, for `of`."""
    setattr(error, _ATTRIBUTE, failure)


def of(error: BaseException | None) -> RecordFailure | None:
    """Return the failure attached to the error or to one of its causes; None if there is none."""
    while error is not None:
        found = getattr(error, _ATTRIBUTE, None)
        if isinstance(found, RecordFailure):
            return found
        error = error.__cause__
    return None


def shorten(value: str) -> str:
    """Return at most LONGEST characters. Redact the value first: a secret that is cut off is not recognised."""
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"


def error_of(trace: str) -> str:
    """Return the last line of a trace that is not a NOTE; "" for an empty trace."""
    lines = [line.strip() for line in trace.strip().splitlines() if not line.startswith(NOTE)]
    return lines[-1] if lines else ""


def settings_of(config: Mapping[str, str], stage: str, alias: str) -> tuple[str, ...]:
    """Return the names of the settings that configure a transform or converter.

    alias: the transform's, "" for a converter. Settings of the framework, such as `predicate`, are left out.
    """
    if alias:
        prefix = f"transforms.{alias}."
        framework = {prefix + name for name in ("type", "predicate", "negate", "plugin.version")}
        return tuple(sorted(name for name in config if name.startswith(prefix) and name not in framework))
    prefix = stage.lower().replace("_", ".")
    own = sorted(name for name in config if name.startswith(f"{prefix}."))
    return (prefix, *own)
