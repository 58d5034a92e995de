"""Secrets are never shown (invariant 10). They are masked by type and by name; a mask that is sent back means
"keep".
"""

import json
import re
import time
from collections.abc import Collection, Iterable, Mapping

from ringfence import dispatch
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.sdk.secret_names import secret_by_name
from ringfence.engine.questions import ConfigKeys
from ringfence.http.errors import bad_request
from ringfence.plain_queries import select
from ringfence.projection.models import PluginSecrets
from ringfence.requests.request import Refusal

# `${file:/etc/x:password}`: says where a secret is, but is not one itself.
_REFERENCE = re.compile(r"^\s*\$\{[^{}]+\}\s*$")
# What may be shown of a connector whose plugin is unknown to every worker.
_HARMLESS = re.compile(
    r"^(name|connector\.class|tasks\.max|topic|topics|topic\..*|.*\.converter|.*\.class|.*\.type|transforms|predicates|"
    r"exactly\.once\.support|transaction\.boundary(\.interval\.ms)?|offsets\.storage\.topic|errors\.tolerance|file|throughput)$"
)
_LOOK_UP_SECONDS = 3.0
_SILENCE_SECONDS = 15.0
_asked_in_vain: dict[str, float] = {}


class Masker:
    """Masks configurations; looks each plugin class up once. Create one per request."""

    def __init__(self, classes: Iterable[str] = ()) -> None:
        self._secret_names: dict[str, frozenset[str] | None] = {
            class_name: frozenset(json.loads(names)) for class_name, names in _read_names(set(classes))
        }

    def secret(self, class_name: str, key: str) -> bool:
        if secret_by_name(key):
            return True
        names = self._names(class_name)
        return key in names if names is not None else not _HARMLESS.match(key)

    def _names(self, class_name: str) -> frozenset[str] | None:
        if class_name not in self._secret_names:
            self._secret_names[class_name] = _look_up(class_name)
        return self._secret_names[class_name]

    def mask(self, config: Mapping[str, str], class_name: str | None = None) -> dict[str, str]:
        """Return the configuration with every secret value replaced by the mask. References to secrets are shown."""
        known_class = config.get("connector.class", "") if class_name is None else class_name
        return {
            key: HIDDEN if value and not _REFERENCE.match(value) and self.secret(known_class, key) else value
            for key, value in config.items()
        }

    def scrub(self, text: str, config: Mapping[str, str]) -> str:
        """Return a string, such as a stack trace, without the secret values of that configuration."""
        if not text:
            return text
        class_name = config.get("connector.class", "")
        for key, value in config.items():
            if len(value) >= 4 and value in text and not _REFERENCE.match(value) and self.secret(class_name, key):
                text = text.replace(value, HIDDEN)
        return text


def hide_all(config: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration for a user who may not read it. Sent back, every mask keeps the stored value."""
    return {key: value if key in ("name", "connector.class") or not value else HIDDEN for key, value in config.items()}


def has_mask(config: Mapping[str, str]) -> bool:
    return HIDDEN in config.values()


def unmask(config: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration with each mask replaced by the stored value. A mask itself is never stored."""
    result = dict(config)
    for key, value in config.items():
        if value == HIDDEN:
            if key not in stored:
                raise bad_request(
                    f"The value of {key} is the mask {HIDDEN}, and there is no stored value that it could stand for: "
                    "send the value itself."
                )
            result[key] = stored[key]
    return result


def remember(class_name: str, names: Iterable[str]) -> None:
    """Remember which settings of a plugin are secret. Writes only what has changed: each write waits for others."""
    packed = json.dumps(sorted(names))
    if (class_name, packed) not in _read_names({class_name}):
        PluginSecrets.objects.update_or_create(class_name=class_name, defaults={"names": packed})


def _read_names(classes: Collection[str]) -> list[tuple[str, str]]:
    """Return the classes that are remembered, each with the JSON of its names."""
    if not classes:
        return []
    places = ", ".join(["%s"] * len(classes))
    return select(PluginSecrets, "class_name, names", f"class_name IN ({places})", *classes)


def _look_up(class_name: str) -> frozenset[str] | None:
    """Ask a worker; None if no worker knows: then only harmless settings are shown."""
    if not class_name:
        return frozenset()
    if time.monotonic() < _asked_in_vain.get(class_name, 0.0):
        return None
    try:
        keys = dispatch.ask(ConfigKeys(class_name), _LOOK_UP_SECONDS)
    except Refusal:
        _asked_in_vain[class_name] = time.monotonic() + _SILENCE_SECONDS
        return None
    names = frozenset(str(key["name"]) for key in keys if key.get("type") == "PASSWORD")
    remember(class_name, names)
    return names
