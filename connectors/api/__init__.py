"""What a connector author imports: subclass `SourceConnector` and `SourceTask`, and the framework does the rest.

A runnable example stands in docs/writing-a-connector.md.
"""

from connectors.api.config_def import (
    NO_DEFAULT,
    AllOf,
    Choices,
    ConfigDef,
    ConfigException,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    NoControlCharacters,
    NonEmpty,
    OneOf,
    ParsedConfig,
    Password,
    Range,
    Recommender,
    UniqueItems,
    Validator,
    Width,
)
from connectors.api.connector import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
    SourceConnectorContext,
)
from connectors.api.errors import ConnectorError, RetriableError
from connectors.api.offsets import OffsetReader, SourceOffset, SourcePartition
from connectors.api.records import RecordBatch, SourceRecord
from connectors.api.schemas import Field, Schema, SchemaType
from connectors.api.structs import SchemaAndValue, Struct
from connectors.api.task import GroupInput, InputRecord, SourceTask, SourceTaskContext, TransactionContext

__all__ = [
    "NO_DEFAULT",
    "AllOf",
    "Choices",
    "ConfigDef",
    "ConfigException",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "ConnectorError",
    "ConnectorTransactionBoundaries",
    "ExactlyOnceSupport",
    "Field",
    "GroupInput",
    "Importance",
    "InputRecord",
    "NoControlCharacters",
    "NonEmpty",
    "OffsetReader",
    "OneOf",
    "ParsedConfig",
    "Password",
    "Range",
    "Recommender",
    "RecordBatch",
    "RetriableError",
    "Schema",
    "SchemaAndValue",
    "SchemaType",
    "SourceConnector",
    "SourceConnectorContext",
    "SourceOffset",
    "SourcePartition",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Struct",
    "TransactionContext",
    "UniqueItems",
    "Validator",
    "Width",
]
