"""What a browser may keep of a form that was not sent: never a secret, and nothing that could be one."""

import re
from typing import Final

from ringfence.connectors.api.config_types import HIDDEN
from ringfence.http.masking import Masker
from ringfence.web.new.form_state import FormState

_CARRIES_ONE: Final = re.compile(r"://[^/\s@]*:[^/\s@]*@|(pass\w*|pwd|secret|token|key)\s*[=:]", re.IGNORECASE)
"""Of a value: a user with a password in an address, `password=…` among options."""


def settings_to_keep(draft: FormState, masker: Masker, undeclared: frozenset[str]) -> dict[str, object]:
    """`{"name", "config", "left_out"}`. left_out: settings that are to be typed again.

    undeclared: settings that no plugin declares: nobody says what they hold.
    """
    kept: dict[str, str] = {}
    left_out: list[str] = []
    for key, value in masker.mask(draft.config).items():
        if value == HIDDEN or key in undeclared or _CARRIES_ONE.search(value):
            left_out.append(key)
        else:
            kept[key] = value
    return {"name": draft.name, "config": kept, "left_out": sorted(left_out)}
