"""Transforms that change a record's topic, or drop it: RegexRouter, Filter."""

from collections.abc import Mapping

from ringfence.connectors.api import ConfigDef, ConfigType, Importance, SourceRecord
from ringfence.connectors.columns import Column
from ringfence.connectors.sdk.linear_patterns import Match
from ringfence.connectors.transforms.base import JAVA, Transform
from ringfence.connectors.transforms.patterns import is_pattern, java_pattern, replacement


class RegexRouter(Transform):
    """Changes the topic of records whose whole topic name matches the pattern; other records are unchanged."""

    name = "RegexRouter"
    aliases = (JAVA + name,)
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
            documentation="The replacement of the match; $1 and ${name} are its groups.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._pattern = java_pattern("regex", settings.string("regex"))
        self._replacement = replacement("replacement", settings.string("replacement"), self._pattern)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        topic = self._route(record.topic)
        if topic is record.topic:
            return record
        changed = record.copy()
        changed.topic = topic
        return changed

    @property
    def by_column(self) -> bool:
        return True

    def apply_column(self, column: Column) -> bool:
        column.topic = self._route(column.topic)
        return True

    def _route(self, topic: str) -> str:
        if not self._pattern.fullmatch(topic):
            return topic
        # Searched again, as Java does: a lazy pattern may replace only a part of the name.
        match = self._pattern.search(topic)
        return topic if match is None else topic[: match.start] + self._expand(match) + topic[match.end :]

    def _expand(self, match: Match) -> str:
        return "".join(part if isinstance(part, str) else match.groups[part[0]] or "" for part in self._replacement)


class Filter(Transform):
    """Drops every record: used with a predicate."""

    name = "Filter"
    aliases = (JAVA + name,)
    _CONFIG_DEF = ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        pass

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        return None
