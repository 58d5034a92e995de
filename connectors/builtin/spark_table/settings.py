"""The settings of SparkTableSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigType, Importance, NonEmpty, OneOf, Range, ShownIf, Width
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.builtin.sql.settings import BEST_FIT, NONE, NUMERIC, ZONE, check_zone
from ringfence.connectors.unsupported_values import define_unsupported_values

DBTABLE: Final = "dbtable"
USER: Final = "user"
PASSWORD: Final = "password"  # noqa: S105 - the name of a setting
COLUMN: Final = "partitionColumn"
LOWER: Final = "lowerBound"
UPPER: Final = "upperBound"
COUNT: Final = "numPartitions"
"""Settings for a database table, with the names of Spark's JDBC reader."""
OF_DATABASE: Final = (DBTABLE, USER, PASSWORD, COLUMN, LOWER, UPPER, COUNT)
TOPIC: Final = "topic"
PART_ROWS: Final = "part.rows"
VERSION: Final = "table.version"
METADATA: Final = "iceberg.metadata.file"
BATCH_SIZE: Final = "batch.size"

SHARE: Final = "table.share"
"""In a task's configuration: `index/count`, its share of the parts."""
PREVIEW: Final = "table.preview"
"""In a task's configuration: `true` if a plan of the first part is enough."""

URL_KEY: Final = "url"
"""The key of the plan's source partition: the table's URL."""
PART_KEY: Final = "part"
"""Beside `url` in a part's source partition: the part's number."""
PLAN: Final = "plan"
"""In all source offsets: the id of the plan."""
PARTS: Final = "parts"
"""In the plan's source offset: the number of parts."""
FILE: Final = "file"
ETAG: Final = "etag"
FIRST: Final = "first"
END: Final = "end"
"""In a part's source offset: the file, its content, and the part's rows in it, `end` excluded."""
ROW: Final = "row"
"""In a part's source offset: the next row to read."""
COLUMNS: Final = "columns"
"""In a part's source offset: columns that are not in the file, with their types and values."""
KEY: Final = "key"
"""In the source offset of a part of a database table: the columns that order its rows."""
START: Final = "start"
"""In the same offset: the least value of the first column, included; null if there is no bound."""
STOP: Final = "stop"
"""In the same offset: its greatest value, excluded; null if there is no bound."""
AFTER: Final = "after"
"""In the same offset: the key of the last row that was read; null before the first."""
DONE: Final = "done"

JDBC: Final = "jdbc:"
"""The prefix of a database table's URL."""
_DATABASE: Final = "Database"


def _is_database(url: str) -> bool:
    return url.startswith(JDBC)


_IF_DATABASE: Final = ShownIf(URL, _is_database)
_IF_FILES: Final = ShownIf(URL, lambda url: not _is_database(url))


def define() -> ConfigDef:
    """Return the connector's own settings, without those of places."""
    settings = (
        ConfigDef()
        .define(
            URL,
            ConfigType.STRING,
            validator=NonEmpty(),
            importance=Importance.HIGH,
            documentation="The table: a folder with Parquet files at any depth, or with a Delta or Iceberg table, "
            "such as file:///data/flights, s3://bucket/flights, gs://bucket/flights, "
            "abfs://container@account.dfs.core.windows.net/flights or sftp://host/flights; or a "
            f"database, such as jdbc:postgresql://host:5432/shop, with the table's name in {DBTABLE}.",
            width=Width.LONG,
            display_name="Table",
        )
        .define(
            TOPIC,
            ConfigType.STRING,
            validator=NonEmpty(),
            importance=Importance.HIGH,
            documentation="The topic to write to: one record per row.",
            display_name="Topic",
        )
        .define(
            PART_ROWS,
            ConfigType.INT,
            500_000,
            validator=Range(1),
            recommender=_IF_FILES,
            documentation="The approximate number of rows in a part: whole row groups of a file. Parts are "
            "distributed to up to tasks.max tasks. Used only when the plan is made.",
            display_name="Rows in a part",
        )
        .define(
            VERSION,
            ConfigType.STRING,
            None,
            recommender=_IF_FILES,
            documentation="The version of a Delta table, or the id of an Iceberg table's snapshot. Default: the "
            "newest when the plan is made, which records it. Used only when the plan is made.",
            display_name="Version of the table",
        )
        .define(
            METADATA,
            ConfigType.STRING,
            None,
            importance=Importance.LOW,
            recommender=_IF_FILES,
            documentation="For an Iceberg table with a catalog: the name of its current metadata file, which only "
            "the catalog knows, such as 00005-7fbec60c-8a49-49a3-b636-f0c48ca8fd3f.metadata.json.",
            display_name="Metadata file of an Iceberg table",
        )
        .define(
            BATCH_SIZE,
            ConfigType.INT,
            5000,
            validator=Range(1),
            importance=Importance.LOW,
            display_name="Batch size",
            documentation="The maximum number of records in a batch; with transaction.boundary=poll, a batch is a "
            "transaction.",
        )
        .define(
            DBTABLE,
            ConfigType.STRING,
            None,
            recommender=_IF_DATABASE,
            importance=Importance.HIGH,
            group=_DATABASE,
            documentation="The database table, as table or schema.table. It needs a primary key, or a unique key of "
            "columns that are never null.",
            display_name="Table in the database",
        )
        .define(
            USER,
            ConfigType.STRING,
            None,
            recommender=_IF_DATABASE,
            importance=Importance.HIGH,
            display_name="User",
            group=_DATABASE,
            documentation="The database user to sign in as.",
        )
        .define(
            PASSWORD,
            ConfigType.PASSWORD,
            None,
            recommender=_IF_DATABASE,
            importance=Importance.HIGH,
            display_name="Password",
            group=_DATABASE,
            documentation="The database user's password.",
        )
        .define(
            COLUMN,
            ConfigType.STRING,
            None,
            recommender=_IF_DATABASE,
            importance=Importance.HIGH,
            group=_DATABASE,
            documentation="The column whose ranges are the parts: integers, dates or times, without nulls, with an "
            "index. Default: the first column of the key.",
            display_name="Column to divide by",
        )
        .define(
            LOWER,
            ConfigType.STRING,
            None,
            importance=Importance.LOW,
            recommender=_IF_DATABASE,
            group=_DATABASE,
            documentation="The approximate end of the first range: rows below belong to the first part. Default: the "
            "column's least value when the plan is made.",
            display_name="Lower bound",
        )
        .define(
            UPPER,
            ConfigType.STRING,
            None,
            importance=Importance.LOW,
            recommender=_IF_DATABASE,
            group=_DATABASE,
            documentation="The approximate beginning of the last range: rows above belong to the last part. Default: "
            "the column's greatest value when the plan is made.",
            display_name="Upper bound",
        )
        .define(
            COUNT,
            ConfigType.INT,
            100,
            validator=Range(1, 100_000),
            recommender=_IF_DATABASE,
            importance=Importance.HIGH,
            group=_DATABASE,
            documentation="The number of ranges of equal width between the bounds. Used only when the plan is made.",
            display_name="Number of parts",
        )
        .define(
            NUMERIC,
            ConfigType.STRING,
            NONE,
            validator=OneOf(NONE, BEST_FIT),
            importance=Importance.LOW,
            recommender=ShownIf(URL, _is_database, NONE, BEST_FIT),
            display_name="Numeric mapping",
            group=_DATABASE,
            documentation="How NUMERIC columns are written: none as exact decimals; best_fit as integers or doubles "
            "if their precision allows.",
        )
        .define(
            ZONE,
            ConfigType.STRING,
            "UTC",
            validator=check_zone,
            importance=Importance.LOW,
            recommender=_IF_DATABASE,
            display_name="Time zone",
            group=_DATABASE,
            documentation="The time zone of columns without one.",
        )
    )
    define_unsupported_values(settings, _DATABASE)
    return settings
