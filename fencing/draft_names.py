"""Names of worker settings in KIP-618's draft, which some of its readers use. They are read as the final ones."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from ringfence.fencing.modes import MODE_KEY, Mode

log = logging.getLogger(__name__)

_FINAL: Final = {"exactly.once.source.enabled": MODE_KEY, "offsets.storage.topic": "offset.storage.topic"}
_MODES: Final = {"true": Mode.ENABLED.value, "false": Mode.DISABLED.value}


def find_final_names(settings: Mapping[str, str], spell: Callable[[str], str] = str) -> dict[str, tuple[str, str]]:
    """Return the final name and value of each setting that has a draft's name, by that name.

    spell: returns the form of a setting's name in the mapping.
    """
    names = {}
    for name, final in _FINAL.items():
        value = settings.get(spell(name))
        if value is not None:
            is_mode = final == MODE_KEY
            names[spell(name)] = (spell(final), _MODES.get(value.strip().lower(), value) if is_mode else value)
    return names


def with_final_names(settings: Mapping[str, str], spell: Callable[[str], str] = str) -> dict[str, str]:
    """Return the settings with final names only. A final name that is also there comes first."""
    renamed = find_final_names(settings, spell)
    result = {name: value for name, value in settings.items() if name not in renamed}
    for final, value in renamed.values():
        result.setdefault(final, value)
    return result


def read_final_names(settings: Mapping[str, str], spell: Callable[[str], str] = str) -> dict[str, str]:
    """Do the same as `with_final_names`, and log a warning for each name of the draft."""
    for name, (final, _) in find_final_names(settings, spell).items():
        log.warning("%s is a name of KIP-618's draft: it is read as %s. Use that name", name, final)
    return with_final_names(settings, spell)
