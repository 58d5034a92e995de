"""Predicates select the records that a transform changes: `predicates=p`, `predicates.p.type`, and its settings."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from ringfence.connectors.api import AllOf, ConfigDef, ConfigType, NonEmpty, SourceRecord
from ringfence.connectors.transforms.base import Transform
from ringfence.connectors.transforms.routing import is_pattern, java_pattern

_JAVA: Final = "org.apache.kafka.connect.transforms.predicates."


class Predicate(ABC):
    """A condition on one record. One instance serves one task, on one thread."""

    name: ClassVar[str]
    """The name in `predicates.<alias>.type`."""
    aliases: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef:
        """Return the predicate's own settings, without the prefix (`predicates.<alias>.`)."""

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """Apply the settings, given without the prefix. Raises `ConfigException`."""

    @abstractmethod
    def test(self, record: SourceRecord) -> bool:
        """Return whether the predicate accepts the record."""


class HasHeaderKey(Predicate):
    """Accepts records with at least one header of that name."""

    name = "HasHeaderKey"
    aliases = (_JAVA + name,)
    _CONFIG_DEF = ConfigDef().define(
        "name", ConfigType.STRING, validator=NonEmpty(), documentation="The name of the header."
    )

    @classmethod
    def config_def(cls) -> ConfigDef:
        return cls._CONFIG_DEF

    def configure(self, config: Mapping[str, str]) -> None:
        self._name = self._CONFIG_DEF.parse(config).string("name")

    def test(self, record: SourceRecord) -> bool:
        return any(name == self._name for name, _ in record.headers)


class RecordIsTombstone(Predicate):
    """Accepts records whose value is None."""

    name = "RecordIsTombstone"
    aliases = (_JAVA + name,)
    _CONFIG_DEF = ConfigDef()

    @classmethod
    def config_def(cls) -> ConfigDef:
        return cls._CONFIG_DEF

    def configure(self, config: Mapping[str, str]) -> None:
        pass

    def test(self, record: SourceRecord) -> bool:
        return record.value is None


class TopicNameMatches(Predicate):
    """Accepts records whose whole topic name matches the pattern."""

    name = "TopicNameMatches"
    aliases = (_JAVA + name,)
    _CONFIG_DEF = ConfigDef().define(
        "pattern",
        ConfigType.STRING,
        validator=AllOf(NonEmpty(), is_pattern),
        documentation="A regular expression that the whole name of the record's topic must match.",
    )

    @classmethod
    def config_def(cls) -> ConfigDef:
        return cls._CONFIG_DEF

    def configure(self, config: Mapping[str, str]) -> None:
        self._pattern = java_pattern("pattern", self._CONFIG_DEF.parse(config).string("pattern"))

    def test(self, record: SourceRecord) -> bool:
        return self._pattern.fullmatch(record.topic)


class ConditionalTransform(Transform):
    """A transform that applies only to the records that its predicate accepts; with `negate`, to all others."""

    name = "Predicated"

    def __init__(self, transform: Transform, predicate: Predicate, *, negate: bool) -> None:
        self._transform = transform
        self._predicate = predicate
        self._negate = negate

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        """Do nothing: transform and predicate are already configured."""

    @property
    def class_name(self) -> str:
        return self._transform.class_name

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        return self._transform.apply(record) if self._predicate.test(record) is not self._negate else record

    def close(self) -> None:
        self._transform.close()
