"""The settings of SparkTableSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigType, Importance, NonEmpty, Range, Width
from ringfence.connectors.builtin.files.settings import URL

TOPIC: Final = "topic"
PART_ROWS: Final = "part.rows"
BATCH_SIZE: Final = "batch.size"

SHARE: Final = "table.share"
"""In the configuration of a task: `index/count`, which of the parts are its own."""
PREVIEW: Final = "table.preview"
"""In the configuration of a task: `true` where a plan of the first file is enough."""

URL_KEY: Final = "url"
"""The key of the plan's source partition: the table's address."""
PART_KEY: Final = "part"
"""Beside `url` in the source partition of a part: its number."""
PLAN: Final = "plan"
"""In all source offsets: which plan they belong to."""
PARTS: Final = "parts"
"""In the plan's source offset: how many parts there are."""
FILE: Final = "file"
ETAG: Final = "etag"
FIRST: Final = "first"
END: Final = "end"
"""In a part's source offset: the file, its content, and the rows of it that are the part's, `end` not included."""
ROW: Final = "row"
"""In a part's source offset: the next row that is to be read."""


def define() -> ConfigDef:
    """The connector's own settings, without those of places."""
    return (
        ConfigDef()
        .define(
            URL,
            ConfigType.STRING,
            validator=NonEmpty(),
            importance=Importance.HIGH,
            documentation="The table: a folder with Parquet files at any depth, such as file:///data/flights, "
            "s3://bucket/flights, gs://bucket/flights, abfs://container@account.dfs.core.windows.net/flights or "
            "sftp://host/flights.",
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
            documentation="About how many rows a part of the table has: the next whole row groups of a file. Parts are "
            "dealt to as many tasks as tasks.max allows. It counts when the plan is made, and not after.",
            display_name="Rows in a part",
        )
        .define(
            BATCH_SIZE,
            ConfigType.INT,
            5000,
            validator=Range(1),
            importance=Importance.LOW,
            documentation="The most records handed over at a time: with transaction.boundary=poll, those of one "
            "transaction.",
        )
    )
