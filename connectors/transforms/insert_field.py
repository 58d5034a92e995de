"""InsertField: adds what is known about a record, or a fixed text, to its key or value."""

from collections.abc import Mapping
from typing import ClassVar

from connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    NonEmpty,
    SourceRecord,
)
from connectors.transforms.base import Transform

_MARKS = "A trailing ! (required) or ? (optional) is accepted and makes no difference without schemas."


def _refuse_offset(name: str, value: object) -> None:
    raise ConfigException.invalid(name, value, "a source record has no Kafka offset before it is written; leave it out")


_CONFIG_DEF = (
    ConfigDef()
    .define(
        "topic.field",
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        documentation=f"The field that takes the record's topic. {_MARKS}",
    )
    .define(
        "partition.field",
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        documentation=f"The field that takes the Kafka partition, where the connector chose one. {_MARKS}",
    )
    .define(
        "offset.field",
        ConfigType.STRING,
        default=None,
        validator=_refuse_offset,
        documentation="The field that takes the Kafka offset: possible in sinks only, so it must be left out here.",
    )
    .define(
        "timestamp.field",
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        documentation=f"The field that takes the record's timestamp in milliseconds, where it has one. {_MARKS}",
    )
    .define(
        "static.field",
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        documentation=f"The field that takes `static.value`. {_MARKS}",
    )
    .define(
        "static.value",
        ConfigType.STRING,
        default=None,
        documentation="The text for `static.field`.",
        importance=Importance.MEDIUM,
    )
    .define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        default=True,
        documentation="Whether a field that is null takes its schema's default value. Without schemas, as here, there "
        "is none: the setting is accepted and null stays null.",
    )
)


class InsertField(Transform):
    """Adds fields to the record's value (or key): it must be a mapping. A key or value of None passes unchanged."""

    on_key: ClassVar[bool]

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, config: Mapping[str, str]) -> None:
        settings = _CONFIG_DEF.parse(config)

        def field(name: str) -> str | None:
            value = settings[name]
            return None if value is None else str(value).removesuffix("?").removesuffix("!")

        self._topic = field("topic.field")
        self._partition = field("partition.field")
        self._timestamp = field("timestamp.field")
        static, value = field("static.field"), settings["static.value"]
        self._static = {static: value} if static is not None and value is not None else {}

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        target = record.key if self.on_key else record.value
        if target is None:
            return record
        if not isinstance(target, Mapping):
            raise ConnectorError(
                f"{self.name} can add fields to a mapping only, and a record for topic {record.topic} has a "
                f"{type(target).__name__} as its {'key' if self.on_key else 'value'}."
            )
        changed = {**target}
        if self._topic is not None:
            changed[self._topic] = record.topic
        if self._partition is not None and record.partition is not None:
            changed[self._partition] = record.partition
        if self._timestamp is not None and record.timestamp is not None:
            changed[self._timestamp] = record.timestamp
        changed.update(self._static)
        return SourceRecord(
            record.source_partition,
            record.source_offset,
            record.topic,
            record.value if self.on_key else changed,
            changed if self.on_key else record.key,
            record.headers,
            record.timestamp,
            record.partition,
        )


class InsertFieldKey(InsertField):
    """InsertField on the key."""

    name = "InsertField$Key"
    aliases = ("org.apache.kafka.connect.transforms.InsertField$Key",)
    on_key = True


class InsertFieldValue(InsertField):
    """InsertField on the value."""

    name = "InsertField$Value"
    aliases = ("org.apache.kafka.connect.transforms.InsertField$Value",)
    on_key = False
