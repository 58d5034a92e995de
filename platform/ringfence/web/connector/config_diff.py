"""Differences between configurations, for display: computed on the values, shown with secrets masked."""

from collections.abc import Mapping
from dataclasses import dataclass

from ringfence.history.versions import difference
from ringfence.http.masking import Masker

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that differs; None if it is absent. Secrets are masked."""

    key: str
    before: str | None
    after: str | None


def changes(before: Config, after: Config, masker: Masker) -> list[Change]:
    """Return the changes, by key. Which settings are secret depends on the plugin class, so each configuration is
    masked as a whole.
    """
    diff = difference(before, after)
    old, new = masker.mask(before), masker.mask(after)
    return [Change(key, old.get(key), new.get(key)) for key in sorted({*diff.added, *diff.removed, *diff.changed})]
