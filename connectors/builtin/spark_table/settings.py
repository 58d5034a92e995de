"""The settings of SparkTableSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import ConfigDef, Importance, ShownIf
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.builtin.sql.settings import BEST_FIT, NONE, NUMERIC, ZONE, check_zone
from ringfence.connectors.sdk.unsupported_values import define_unsupported_values

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


def _is_database(url: str) -> bool:
    return url.startswith(JDBC)


_IF_DATABASE: Final = ShownIf(URL, _is_database)
_IF_FILES: Final = ShownIf(URL, lambda url: not _is_database(url))

OWN: Final = ConfigDef()
"""The settings, but for those of places."""
_settings: Final = OWN.group()
_database: Final = OWN.group("Database")

_settings.text(
    URL,
    "The table: a folder with Parquet files at any depth, or with a Delta or Iceberg table, "
    "such as file:///data/flights, s3://bucket/flights, gs://bucket/flights, "
    "abfs://container@account.dfs.core.windows.net/flights or sftp://host/flights; or a "
    "database, such as jdbc:postgresql://host:5432/shop, with the table's name in dbtable.",
    display_name="Table",
)
TOPIC: Final = _settings.text("topic", "The topic to write to: one record per row.", display_name="Topic")
PART_ROWS: Final = _settings.integer(
    "part.rows",
    "The approximate number of rows in a part: whole row groups of a file. Parts are "
    "distributed to up to tasks.max tasks. Used only when the plan is made.",
    500_000,
    1,
    recommender=_IF_FILES,
    display_name="Rows in a part",
)
VERSION: Final = _settings.text(
    "table.version",
    "The version of a Delta table, or the id of an Iceberg table's snapshot. Default: the "
    "newest when the plan is made, which records it. Used only when the plan is made.",
    None,
    recommender=_IF_FILES,
    display_name="Version of the table",
)
METADATA: Final = _settings.text(
    "iceberg.metadata.file",
    "For an Iceberg table with a catalog: the name of its current metadata file, which only "
    "the catalog knows, such as 00005-7fbec60c-8a49-49a3-b636-f0c48ca8fd3f.metadata.json.",
    None,
    recommender=_IF_FILES,
    importance=Importance.LOW,
    display_name="Metadata file of an Iceberg table",
)
BATCH_SIZE: Final = _settings.integer(
    "batch.size",
    "The maximum number of records in a batch; with transaction.boundary=poll, a batch is a transaction.",
    5000,
    1,
    importance=Importance.LOW,
    display_name="Batch size",
)
DBTABLE: Final = _database.text(
    "dbtable",
    "The database table, as table or schema.table. It needs a primary key, or a unique key of "
    "columns that are never null.",
    None,
    recommender=_IF_DATABASE,
    importance=Importance.HIGH,
    display_name="Table in the database",
)
USER: Final = _database.text(
    "user",
    "The database user to sign in as.",
    None,
    recommender=_IF_DATABASE,
    importance=Importance.HIGH,
    display_name="User",
)
PASSWORD: Final = _database.secret(
    "password",
    "The database user's password.",
    recommender=_IF_DATABASE,
    importance=Importance.HIGH,
    display_name="Password",
)
COLUMN: Final = _database.text(
    "partitionColumn",
    "The column whose ranges are the parts: integers, dates or times, without nulls, with an "
    "index. Default: the first column of the key.",
    None,
    recommender=_IF_DATABASE,
    importance=Importance.HIGH,
    display_name="Column to divide by",
)
LOWER: Final = _database.text(
    "lowerBound",
    "The approximate end of the first range: rows below belong to the first part. Default: the "
    "column's least value when the plan is made.",
    None,
    recommender=_IF_DATABASE,
    importance=Importance.LOW,
    display_name="Lower bound",
)
UPPER: Final = _database.text(
    "upperBound",
    "The approximate beginning of the last range: rows above belong to the last part. Default: "
    "the column's greatest value when the plan is made.",
    None,
    recommender=_IF_DATABASE,
    importance=Importance.LOW,
    display_name="Upper bound",
)
COUNT: Final = _database.integer(
    "numPartitions",
    "The number of ranges of equal width between the bounds. Used only when the plan is made.",
    100,
    1,
    100_000,
    recommender=_IF_DATABASE,
    importance=Importance.HIGH,
    display_name="Number of parts",
)
_database.choice(
    NUMERIC,
    "How NUMERIC columns are written: none as exact decimals; best_fit as integers or doubles "
    "if their precision allows.",
    (NONE, BEST_FIT),
    NONE,
    recommender=ShownIf(URL, _is_database, NONE, BEST_FIT),
    importance=Importance.LOW,
    display_name="Numeric mapping",
)
_database.text(
    ZONE,
    "The time zone of columns without one.",
    "UTC",
    validator=check_zone,
    recommender=_IF_DATABASE,
    importance=Importance.LOW,
    display_name="Time zone",
)
define_unsupported_values(_database)
OF_DATABASE: Final = (DBTABLE, USER, PASSWORD, COLUMN, LOWER, UPPER, COUNT)
"""Settings for a database table, with the names of Spark's JDBC reader."""


def find_setting(message: str) -> str:
    """Return the setting that an error's message begins with; one without is about the address."""
    first = message.replace(":", " ").split()[:1]
    return next((name for name in (*OF_DATABASE, VERSION, METADATA) if first == [name]), URL)
