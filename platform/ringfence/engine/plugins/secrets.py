"""Keeps secrets out of what plugins say: in messages and traces every secret value of a config becomes `[hidden]`."""

from collections.abc import Iterable, Mapping

from connectors.api import ConfigDef, ConfigType
from connectors.api.config_def import HIDDEN
from fencing.kafka.security import SECRETS


class Redactor:
    """Knows the secret values of one configuration; without definitions every value counts as secret."""

    def __init__(self, config: Mapping[str, str | None], definitions: Iterable[ConfigDef] | None) -> None:
        if definitions is None:
            names = set(config)
        else:
            keys = (key for definition in definitions for key in definition.keys.values())
            names = {key.name for key in keys if key.type is ConfigType.PASSWORD}
            names |= {name for name in config if ".override." in name and name.partition(".override.")[2] in SECRETS}
        texts = set()
        for name in names:
            value = config.get(name)
            if value:
                texts |= {value, value.strip(), repr(value)[1:-1]}
        self._values = sorted((text for text in texts if text), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return text
