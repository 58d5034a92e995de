"""The settings of PySparkSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigType, Importance, NonEmpty, Range

SOURCE: Final = "data.source"
TOPIC: Final = "topic"
POLL_INTERVAL: Final = "poll.interval.ms"
OPTION: Final = "option."
"""Begins the settings that are the data source's own options."""

GROUP: Final = "ringfence.data_sources"
"""The entry points that name data sources: only those can be run."""

SOURCE_KEY: Final = "data_source"
"""The key of the source partition."""
OFFSET: Final = "offset"
"""In a source offset: where reading goes on, in the data source's own form."""
START: Final = "from"
END: Final = "to"
PARTITIONS: Final = "partitions"
READ: Final = "read"
"""In a source offset within a plan: its bounds, in how many partitions, and how many of them have been read."""

CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        SOURCE,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation=f"The data source: the name of an entry point of the group {GROUP}. Its options are the settings "
        f"that begin with {OPTION}",
        display_name="Data source",
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
        POLL_INTERVAL,
        ConfigType.INT,
        1000,
        validator=Range(10),
        documentation="Milliseconds between two questions for new rows where there were none.",
    )
)
