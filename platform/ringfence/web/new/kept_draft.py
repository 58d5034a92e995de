"""The part of an unsent form that a browser may store: never a secret, nor anything that could be one."""

import re
from typing import Final

from ringfence.connectors.api.config_types import HIDDEN
from ringfence.http.masking import Masker
from ringfence.web.new.form_state import FormState

_CARRIES_ONE: Final = re.compile(r"://[^/\s@]*:[^/\s@]*@|(pass\w*|pwd|secret|token|key)\s*[=:]", re.IGNORECASE)
"""Matches values that contain a secret: a user and password in an address, or `password=…` among options."""


def settings_to_keep(draft: FormState, masker: Masker, undeclared_keys: frozenset[str]) -> dict[str, object]:
    """Return `{"name", "config", "left_out"}`. left_out: settings that must be typed again.

    undeclared_keys: of settings that no plugin declares, so that any of them may be a secret.
    """
    config: dict[str, str] = {}
    left_out: list[str] = []
    for key, value in masker.mask(draft.config).items():
        if value == HIDDEN or key in undeclared_keys or _CARRIES_ONE.search(value):
            left_out.append(key)
        else:
            config[key] = value
    return {"name": draft.name, "config": config, "left_out": sorted(left_out)}
