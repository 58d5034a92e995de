"""What a connector author imports: subclass `SourceConnector` and `SourceTask`, and the framework does the rest.

docs/writing-a-connector.md has a complete example.
"""

from ringfence.connectors.api.catalog_entry import CatalogEntry, Category, Guarantee
from ringfence.connectors.api.config_def import (
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
    SettingGroup,
    ShownIf,
    UniqueItems,
    Validator,
    Width,
)
from ringfence.connectors.api.connector import (
    Choice,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
    SourceConnectorContext,
)
from ringfence.connectors.api.distant_moments import DistantDate, DistantTimestamp, EndOfDay
from ringfence.connectors.api.endpoints import Endpoint
from ringfence.connectors.api.errors import ConnectorError, DataException, RecordRefused, RetriableError
from ringfence.connectors.api.metrics import Gauge, SourceMetrics
from ringfence.connectors.api.offsets import OffsetReader, SourceOffset, SourcePartition
from ringfence.connectors.api.positions import PositionPaths
from ringfence.connectors.api.records import (
    OffsetRecord,
    RecordBatch,
    SerializedRecords,
    SourceRecord,
    UnreadableRecord,
)
from ringfence.connectors.api.schemas import Field, Schema, SchemaType
from ringfence.connectors.api.signals import Signal
from ringfence.connectors.api.struct_batch import StructBatch
from ringfence.connectors.api.structs import SchemaAndValue, Struct
from ringfence.connectors.api.task import (
    Converters,
    GroupInput,
    InputRecord,
    RecordPosition,
    ShareInput,
    ShareRecord,
    SourceTask,
    SourceTaskContext,
    TransactionContext,
)

__all__ = [
    "NO_DEFAULT",
    "AllOf",
    "CatalogEntry",
    "Category",
    "Choice",
    "Choices",
    "ConfigDef",
    "ConfigException",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "ConnectorError",
    "ConnectorTransactionBoundaries",
    "Converters",
    "DataException",
    "DistantDate",
    "DistantTimestamp",
    "EndOfDay",
    "Endpoint",
    "ExactlyOnceSupport",
    "Field",
    "Gauge",
    "GroupInput",
    "Guarantee",
    "Importance",
    "InputRecord",
    "NoControlCharacters",
    "NonEmpty",
    "OffsetReader",
    "OffsetRecord",
    "OneOf",
    "ParsedConfig",
    "Password",
    "PositionPaths",
    "Range",
    "Recommender",
    "RecordBatch",
    "RecordPosition",
    "RecordRefused",
    "RetriableError",
    "Schema",
    "SchemaAndValue",
    "SchemaType",
    "SerializedRecords",
    "SettingGroup",
    "ShareInput",
    "ShareRecord",
    "ShownIf",
    "Signal",
    "SourceConnector",
    "SourceConnectorContext",
    "SourceMetrics",
    "SourceOffset",
    "SourcePartition",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Struct",
    "StructBatch",
    "TransactionContext",
    "UniqueItems",
    "UnreadableRecord",
    "Validator",
    "Width",
]
