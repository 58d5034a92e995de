"""Transforms of timestamps: TimestampConverter and TimestampRouter."""

import re
from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    NonEmpty,
    OneOf,
    Schema,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.schemas import (
    DATE,
    DATE_NAME,
    INT64,
    STRING,
    TIME,
    TIME_NAME,
    TIMESTAMP,
    TIMESTAMP_NAME,
    describe_kind,
)
from ringfence.connectors.sdk.values.date_patterns import DatePattern, PatternError
from ringfence.connectors.sdk.values.moments import is_moment, millis, to_date, to_datetime, to_time
from ringfence.connectors.transforms.base import (
    JAVA,
    KeyOrValue,
    Rebuilt,
    Transform,
    basics,
    halves,
    replace_null,
    values_of,
)

_PER_SECOND: Final = {"nanoseconds": 10**9, "microseconds": 10**6, "milliseconds": 1000, "seconds": 1}
_LONG: Final = 1 << 63
_SCHEMAS: Final[Mapping[str, Schema]] = {
    "string": STRING,
    "unix": INT64,
    "Date": DATE,
    "Time": TIME,
    "Timestamp": TIMESTAMP,
}


def _pattern(setting: str, text: str) -> DatePattern:
    try:
        return DatePattern(text)
    except PatternError as error:
        raise ConfigException.invalid(setting, text, f"{error}") from error


def _is_pattern(name: str, value: object) -> None:
    _pattern(name, str(value))


class TimestampConverter(KeyOrValue):
    """Converts one field, or the whole, from one representation of timestamps to another."""

    _CONFIG_DEF = replace_null(
        ConfigDef()
        .define(
            "field",
            ConfigType.STRING,
            default="",
            importance=Importance.HIGH,
            documentation="The field with the timestamp; not set if the whole key or value is one.",
        )
        .define(
            "target.type",
            ConfigType.STRING,
            validator=OneOf(*_SCHEMAS),
            importance=Importance.HIGH,
            documentation="The target type: string, unix (an integer), Date, Time or Timestamp.",
        )
        .define(
            "format",
            ConfigType.STRING,
            default="",
            validator=_is_pattern,
            importance=Importance.MEDIUM,
            documentation="The format of strings, for reading and writing: a pattern of Java's SimpleDateFormat.",
        )
        .define(
            "unix.precision",
            ConfigType.STRING,
            default="milliseconds",
            validator=OneOf(*_PER_SECOND),
            importance=Importance.LOW,
            documentation="The unit of integers since the epoch: seconds, milliseconds, microseconds, nanoseconds. "
            "Finer units than milliseconds are truncated.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._field, self._target = settings.string("field"), settings.string("target.type")
        self._per_second = _PER_SECOND[settings.string("unix.precision")]
        text = settings.string("format")
        self._pattern = _pattern("format", text) if text else None
        if self._target == "string" and self._pattern is None:
            raise ConfigException(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        self._defaults = settings.boolean("replace.null.with.default")
        self._schema = Rebuilt(self._rebuild)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if schema is None:
            if value is None or not self._field:
                return self.replace_part(record, None, self._convert(None, value))
            mapping = self.mapping(record, value)
            return self.replace_part(
                record, None, {**mapping, self._field: self._convert(None, mapping.get(self._field))}
            )
        if not self._field:
            new_schema = _SCHEMAS[self._target].but(optional=schema.optional)
            return self.replace_part(record, new_schema, self._convert(schema, value))
        new_schema = self._schema(schema)
        if value is None:
            return self.replace_part(record, new_schema, None)
        return self.replace_part(record, new_schema, Struct.of(new_schema, self._values(self.struct(record, value))))

    def _values(self, struct: Struct) -> list[object]:
        values = values_of(struct, self._defaults)
        field = struct.schema.field(self._field)
        if field is not None:
            values[field.place] = self._convert(field.schema, values[field.place])
        return values

    def _rebuild(self, schema: Schema) -> Schema:
        target = _SCHEMAS[self._target]
        fields = {
            name: target.but(optional=inner.optional) if name == self._field else inner
            for name, _, inner in schema.fields
        }
        built = basics(schema, fields, optional=schema.optional)
        if isinstance(schema.default, Struct):
            built = built.but(default=Struct.of(built, self._values(schema.default)))
        return built

    def _convert(self, schema: Schema | None, value: object) -> object:
        if value is None:
            return None
        moment = self._read(schema, value)
        match self._target:
            case "string":
                assert self._pattern is not None  # ensured by configure
                return self._pattern.format(moment)
            case "unix":
                return _units(moment, 1000, self._per_second)
            case "Date":
                return to_date(moment)
            case "Time":
                return to_time(moment)
            case _:
                return to_datetime(moment)

    def _read(self, schema: Schema | None, value: object) -> int:
        """Return milliseconds since the epoch."""
        if schema is not None and schema.name not in (DATE_NAME, TIME_NAME, TIMESTAMP_NAME):
            fits = isinstance(value, str) if schema.type is SchemaType.STRING else schema.type is SchemaType.INT64
            if not fits:
                raise ConnectorError(
                    f"{schema} is not a timestamp for TimestampConverter: it needs a string or an int64."
                )
        if is_moment(value):
            return millis(value)
        if isinstance(value, str):
            if self._pattern is None:
                raise ConnectorError("TimestampConverter was given a string: set format to the format of the strings.")
            moment = self._pattern.parse(value)
            if moment is None:
                raise ConnectorError(
                    f"TimestampConverter was given a string that does not have the format {self._pattern.pattern}."
                )
            return moment
        if isinstance(value, int) and not isinstance(value, bool):
            return _units(value, self._per_second, 1000)
        raise ConnectorError(f"TimestampConverter does not support {describe_kind(value)} as a timestamp.")


def _units(number: int, per_second: int, units: int) -> int:
    """Convert units, truncating towards zero, and limit the result to 64 bits."""
    scaled = abs(number) * units // per_second
    return max(-_LONG, min(_LONG - 1, -scaled if number < 0 else scaled))


_PLACE: Final = re.compile(r"\$\{(topic|timestamp)\}")


class TimestampRouter(Transform):
    """Builds the topic from the record's timestamp."""

    name = "TimestampRouter"
    aliases = (JAVA + name,)
    _CONFIG_DEF = (
        ConfigDef()
        .define(
            "topic.format",
            ConfigType.STRING,
            default="${topic}-${timestamp}",
            validator=NonEmpty(),
            importance=Importance.HIGH,
            documentation="The new topic: ${topic} is the old one, ${timestamp} the time.",
        )
        .define(
            "timestamp.format",
            ConfigType.STRING,
            default="yyyyMMdd",
            validator=_is_pattern,
            importance=Importance.HIGH,
            documentation="The format of the time: a pattern of Java's SimpleDateFormat, in UTC.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._format = settings.string("topic.format")
        self._pattern = _pattern("timestamp.format", settings.string("timestamp.format"))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        if record.timestamp is None:
            raise ConnectorError(f"Timestamp missing on a record for topic {record.topic}: TimestampRouter needs one.")
        parts = {"topic": record.topic, "timestamp": self._pattern.format(record.timestamp)}
        changed = record.copy()
        changed.topic = _PLACE.sub(lambda match: parts[match[1]], self._format)
        return changed


TimestampConverterKey, TimestampConverterValue = halves(TimestampConverter)
