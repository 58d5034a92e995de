"""Which record failed a task: for people, in the task's status."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

LONGEST: Final = 200
"""Characters of the record's value that are told."""

NOTE: Final = "Failed on a record: stage "
"""So begins the line that a trace ends with: for those who only see the trace."""

_TEXTS: Final = ("stage", "class_name", "alias", "topic", "partition", "offset", "value")
_ATTRIBUTE: Final = "ringfence_record_failure"


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """stage, class_name: where it failed; alias: of the transform, "" for a converter; settings: the names of those
    that say what it does; partition, offset: the source's, as JSON; value: its beginning, without the connector's
    secrets."""

    stage: str
    class_name: str
    alias: str
    settings: tuple[str, ...]
    topic: str
    partition: str
    offset: str
    value: str

    def fields(self) -> dict[str, object]:
        """For a status record."""
        return asdict(self)


def read(value: object) -> RecordFailure | None:
    """The inverse of `fields`; None for nonsense."""
    if not isinstance(value, Mapping):
        return None
    known: Mapping[str, object] = value
    settings = known.get("settings")
    names = tuple(str(each) for each in settings) if isinstance(settings, list | tuple) else ()
    text = {name: str(known.get(name) or "") for name in _TEXTS}
    return RecordFailure(settings=names, **text)


def attach(error: Exception, failure: RecordFailure) -> None:
    """Have the error know its record."""
    setattr(error, _ATTRIBUTE, failure)


def of(error: BaseException | None) -> RecordFailure | None:
    """The record of an error, or of what it came from."""
    while error is not None:
        found = getattr(error, _ATTRIBUTE, None)
        if isinstance(found, RecordFailure):
            return found
        error = error.__cause__
    return None


def shorten(value: str) -> str:
    """The beginning of a value, as it is told. Without secrets already: a part of one could not be recognized."""
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"


def error_of(trace: str) -> str:
    """The last line of a trace that says what went wrong, "" for an empty one."""
    lines = [line.strip() for line in trace.strip().splitlines() if not line.startswith(NOTE)]
    return lines[-1] if lines else ""


def settings_of(config: Mapping[str, str], stage: str, alias: str) -> tuple[str, ...]:
    """The settings of a transform or converter that say what it does, as far as the configuration has them."""
    if alias:
        prefix = f"transforms.{alias}."
        framework = {prefix + name for name in ("type", "predicate", "negate", "plugin.version")}
        return tuple(sorted(name for name in config if name.startswith(prefix) and name not in framework))
    prefix = stage.lower().replace("_", ".")
    own = sorted(name for name in config if name.startswith(f"{prefix}."))
    return (prefix, *own)
