"""The settings and the names in the offsets of FileStreamSource, the same as Kafka's."""

from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigType, Importance, NonEmpty, Range, Width

FILE: Final = "file"
TOPIC: Final = "topic"
BATCH_SIZE: Final = "batch.size"

FILENAME: Final = "filename"
"""The key of the source partition."""
POSITION: Final = "position"
"""The key of the source offset: the byte after the last line that was delivered."""

CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        FILE,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The file to read. Its path must be the same on every machine that runs tasks.",
        width=Width.LONG,
        display_name="File",
    )
    .define(
        TOPIC,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The topic to write to: one record per line.",
        width=Width.MEDIUM,
        display_name="Topic",
    )
    .define(
        BATCH_SIZE,
        ConfigType.INT,
        default=2000,
        validator=Range(1),
        importance=Importance.LOW,
        documentation=(
            "The maximum number of lines in a batch; with transaction.boundary=poll, a batch is a transaction."
        ),
        width=Width.SHORT,
        display_name="Batch size",
    )
)
