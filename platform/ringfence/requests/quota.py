"""An account's quota: how much its connectors may have in all. Pure.

An account's connectors are those whose configuration it has saved last. Only the leader sees all of them at the moment
of a write, so the quota travels with the command, and the leader checks it in the plan of that write.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.requests.request import MalformedRequest

UNLIMITED: Final = 2**62
"""In place of a number. It fits into every database."""


@dataclass(frozen=True, slots=True)
class Quota:
    """connectors: how many; tasks: the sum of their `tasks.max`; config_bytes: the size of their configurations."""

    connectors: int = 500
    tasks: int = 2_000
    config_bytes: int = 32 * 1024 * 1024

    def to_fields(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in QUOTAS}

    @classmethod
    def parse(cls, fields: Mapping[str, object]) -> "Quota":
        """Raises `MalformedRequest`."""
        values = {name: fields.get(name) for name in QUOTAS}
        numbers = {name: value for name, value in values.items() if isinstance(value, int)}
        if len(numbers) < len(QUOTAS):
            raise MalformedRequest("a quota has three numbers")
        return cls(**numbers)


QUOTAS: Final[Mapping[str, str]] = {
    "connectors": "connectors",
    "tasks": "tasks (tasks.max)",
    "config_bytes": "bytes of configuration",
}
"""The quotas, with their names for people."""

DEFAULT: Final = Quota()
"""More than a team's connectors need, and less than what a cluster feels."""
NO_LIMITS: Final = Quota(UNLIMITED, UNLIMITED, UNLIMITED)
"""Of administrators, and of those who have no account."""


def largest(quotas: Iterable[Quota]) -> Quota:
    """Return the largest number of each; the default for none."""
    choices = list(quotas) or [DEFAULT]
    return Quota(**{name: max(getattr(each, name) for each in choices) for name in QUOTAS})
