"""Merges a form's changes of a configuration with changes that others have saved since the form was loaded."""

from collections.abc import Mapping
from dataclasses import dataclass

from ringfence.connectors.api.config_types import HIDDEN
from ringfence.http.masking import Masker

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ThreeWay:
    """A setting that was changed since a form was loaded, or that the form changes, or both. Secrets are masked.

    conflict: both changed it, to different values.
    """

    key: str
    base: str | None
    now: str | None
    mine: str | None
    theirs_changed: bool
    conflict: bool


def fill_masks(mine: Config, base: Config) -> dict[str, str]:
    """Replace each mask in the form's settings by the value that the form was loaded with."""
    return {key: base.get(key, value) if value == HIDDEN else value for key, value in mine.items()}


def three_way(base: Config, now: Config, mine: Config, masker: Masker) -> list[ThreeWay]:
    """Return others' changes (base to now) beside the form's changes (base to mine). Masks must be
    filled in already.
    """
    masked_configs = [masker.mask(config) for config in (base, now, mine)]
    rows = []
    for key in sorted(base.keys() | now.keys() | mine.keys()):
        was, there, after = base.get(key), now.get(key), mine.get(key)
        if was == there == after:
            continue
        old, current, new = (config.get(key) for config in masked_configs)
        conflict = there != was and after != was and there != after
        rows.append(ThreeWay(key, old, current, new, there != was, conflict))
    return rows


def merge(base: Config, now: Config, mine: Config) -> dict[str, str]:
    """Merge the form's changes into the current configuration. In a conflict, the form wins."""
    result = {}
    for key in base.keys() | now.keys() | mine.keys():
        value = now.get(key) if mine.get(key) == base.get(key) else mine.get(key)
        if value is not None:
            result[key] = value
    return result


def mask_again(merged_config: Config, now: Config, form_config: Config, masker: Masker) -> dict[str, str]:
    """Mask a merged configuration for the form: stored secrets become masks, newly typed ones stay."""
    masked_config = masker.mask(merged_config)
    return {
        key: form_config[key]
        if value == HIDDEN and now.get(key) != merged_config[key] and key in form_config
        else value
        for key, value in masked_config.items()
    }
