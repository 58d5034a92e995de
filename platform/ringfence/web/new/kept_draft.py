"""The part of an unsent form that a browser may store: never a secret, nor anything that could be one."""

import re
from typing import Final

from ringfence.connectors.api.config_types import HIDDEN
from ringfence.http.masking import Masker
from ringfence.web.new.form_state import FormState

_LOGIN: Final = re.compile(r"://([^/\s@]*+)@")
"""What is before the host in an address."""
_OPTION: Final = re.compile(r"(\w++)\s*+([=:]?)")
_ENDINGS: Final = ("pwd", "secret", "token", "key")


def carries_secret(value: str) -> bool:
    """Return whether a value contains one: a user and password in an address, or `password=…` among options.

    In time linear in the value: nothing that was read is read again.
    """
    if any(":" in login for login in _LOGIN.findall(value)):
        return True
    words = (word.casefold() for word, sign in _OPTION.findall(value) if sign)
    return any("pass" in word or word.endswith(_ENDINGS) for word in words)


def settings_to_keep(draft: FormState, masker: Masker, undeclared_keys: frozenset[str]) -> dict[str, object]:
    """Return `{"name", "config", "left_out"}`. left_out: settings that must be typed again.

    undeclared_keys: of settings that no plugin declares, so that any of them may be a secret.
    """
    config: dict[str, str] = {}
    left_out: list[str] = []
    for key, value in masker.mask(draft.config).items():
        if value == HIDDEN or key in undeclared_keys or carries_secret(value):
            left_out.append(key)
        else:
            config[key] = value
    return {"name": draft.name, "config": config, "left_out": sorted(left_out)}
