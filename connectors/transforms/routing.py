"""Transforms that change where a record goes, or whether it goes at all: RegexRouter, DropHeaders, Filter."""

import re
from collections.abc import Mapping
from typing import Final

from connectors.api import ConfigDef, ConfigType, Importance, NonEmpty, SourceRecord
from connectors.transforms.base import Transform
from connectors.transforms.patterns import is_pattern, java_pattern, replacement

_JAVA: Final = "org.apache.kafka.connect.transforms."


def with_topic(record: SourceRecord, topic: str) -> SourceRecord:
    """The same record for another topic."""
    return SourceRecord(
        record.source_partition,
        record.source_offset,
        topic,
        record.value,
        record.key,
        record.headers,
        record.timestamp,
        record.partition,
    )


class RegexRouter(Transform):
    """Another topic for records whose whole topic name fits the pattern; the others stay as they are."""

    name = "RegexRouter"
    aliases = (_JAVA + name,)
    _CONFIG_DEF = (
        ConfigDef()
        .define(
            "regex",
            ConfigType.STRING,
            validator=is_pattern,
            importance=Importance.HIGH,
            documentation="A regular expression that the whole name of the topic must match.",
        )
        .define(
            "replacement",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="What takes the place of the match; $1 and ${name} stand for its groups.",
        )
    )

    @classmethod
    def config_def(cls) -> ConfigDef:
        return cls._CONFIG_DEF

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._pattern = java_pattern("regex", settings.string("regex"))
        self._replacement = replacement("replacement", settings.string("replacement"), self._pattern)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        if self._pattern.fullmatch(record.topic) is None:
            return record
        # Searched anew, as Java does: a lazy pattern may replace less than the whole name.
        return with_topic(record, self._pattern.sub(self._expand, record.topic, count=1))

    def _expand(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part[0]] or "" for part in self._replacement)


class DropHeaders(Transform):
    """Takes all headers of some names away."""

    name = "DropHeaders"
    aliases = (_JAVA + name,)
    _CONFIG_DEF = ConfigDef().define(
        "headers",
        ConfigType.LIST,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The names of the headers to take away.",
    )

    @classmethod
    def config_def(cls) -> ConfigDef:
        return cls._CONFIG_DEF

    def configure(self, config: Mapping[str, str]) -> None:
        self._names = frozenset(self._CONFIG_DEF.parse(config).strings("headers"))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        kept = [(name, value) for name, value in record.headers if name not in self._names]
        if len(kept) == len(record.headers):
            return record
        return SourceRecord(
            record.source_partition,
            record.source_offset,
            record.topic,
            record.value,
            record.key,
            kept,
            record.timestamp,
            record.partition,
        )


class Filter(Transform):
    """Drops every record: meant to stand behind a predicate."""

    name = "Filter"
    aliases = (_JAVA + name,)
    _CONFIG_DEF = ConfigDef()

    @classmethod
    def config_def(cls) -> ConfigDef:
        return cls._CONFIG_DEF

    def configure(self, config: Mapping[str, str]) -> None:
        pass

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        return None
