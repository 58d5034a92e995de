"""Removes secrets from plugins' messages and traces: every secret value of a config becomes `[hidden]`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigType, SchemaAndValue, SourceRecord, Struct
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.sdk.kafka_settings.security import SECRETS

_DEEPEST: Final = 100
_SHORT: Final = 4
"""Shorter values are too common to be searched for inside records; they are hidden only as whole values."""
_NOTHING: Final = f"{HIDDEN} (a secret of fewer than {_SHORT} characters may be in it)"


class Redactor:
    """Knows the secret values of one configuration; without definitions, every value counts as secret."""

    def __init__(self, config: Mapping[str, str | None], definitions: Iterable[ConfigDef] | None) -> None:
        if definitions is None:
            names = set(config)
        else:
            keys = (key for definition in definitions for key in definition.keys.values())
            names = {key.name for key in keys if key.type is ConfigType.PASSWORD}
            names |= {name for name in config if ".override." in name and name.partition(".override.")[2] in SECRETS}
        self.secrets = {value for name in names if (value := config.get(name))}
        texts = set()
        for value in self.secrets:
            texts |= {value, value.strip(), repr(value)[1:-1]}
        self._values = sorted((text for text in texts if len(text) >= _SHORT), key=len, reverse=True)
        # Without definitions, a short value is rather a number of tasks than a secret.
        self._short = set() if definitions is None else {text for text in texts if 0 < len(text) < _SHORT}

    def __call__(self, text: str) -> str:
        """Return the text without secrets.

        If a short one is in it, nothing of the text is returned: `cl[hidden]sed` would say what a secret `o` is.
        """
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return _NOTHING if any(value in text for value in self._short) else text


class Scrubber:
    """Removes secrets from records, before a transform could cut them into unrecognisable pieces."""

    def __init__(self, secrets: Iterable[str]) -> None:
        whole = {secret for secret in secrets if secret}
        texts = {text for secret in whole for text in (secret, secret.strip(), *_escape(secret)) if len(text) >= _SHORT}
        self._inside = sorted(texts, key=len, reverse=True)
        self._whole = whole

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        if text in self._whole:
            return HIDDEN
        for value in self._inside:
            text = text.replace(value, HIDDEN)
        return text

    def value(self, value: object) -> object:
        """Do the same for any value of a record, including keys of mappings. A value that is nested too deeply to be
        searched is hidden.
        """
        return self._clean(value, 0)

    def _clean(self, value: object, depth: int) -> object:
        if depth > _DEEPEST:
            return HIDDEN
        match value:
            case str():
                return self.text(value)
            case bytes() | bytearray() | memoryview():
                raw = bytes(value)
                clean_text = self.text(raw.decode("utf-8", "surrogateescape"))
                return clean_text.encode("utf-8", "surrogateescape")
            case Mapping():
                below = depth + 1
                return {
                    self.text(k) if isinstance(k, str) else k: self._clean(item, below) for k, item in value.items()
                }
            case Struct():
                return Struct.of(value.schema, [self._in_struct(item, depth + 1) for item in value.values])
            case SchemaAndValue():  # a tuple, too
                return SchemaAndValue(value.schema, self._in_struct(value.value, depth + 1))
            case list():
                return [self._clean(item, depth + 1) for item in value]
            case tuple():
                return tuple(self._clean(item, depth + 1) for item in value)
            case bool() | None:
                return value
            case _:
                text = str(value)
                return value if self.text(text) == text else HIDDEN

    def _in_struct(self, value: object, depth: int = 0) -> object:
        """Return None instead of a value whose mask would not fit its schema."""
        clean = self._clean(value, depth)
        return None if isinstance(clean, str) and not isinstance(value, str) else clean

    def record(self, record: SourceRecord) -> SourceRecord:
        """Return a copy without secrets, or the record itself if there are no secrets."""
        if not self._whole:
            return record
        headers: Sequence[tuple[str, object]] = record.headers or ()
        return SourceRecord(
            record.source_partition,
            record.source_offset,
            self.text(record.topic),
            self.value(record.value) if record.value_schema is None else self._in_struct(record.value),
            self.value(record.key) if record.key_schema is None else self._in_struct(record.key),
            [(self.text(name), self.value(item)) for name, item in headers],
            record.timestamp,
            record.partition,
            record.key_schema,
            record.value_schema,
        )


def _escape(secret: str) -> tuple[str, ...]:
    """Return its forms inside a Python literal and inside JSON."""
    return repr(secret)[1:-1], json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
