"""The settings of PySparkSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import ConfigDef, InstalledChoices

OPTION: Final = "option."
"""The prefix of settings that are the data source's own options."""

GROUP: Final = "ringfence.data_sources"
"""The group of entry points that name data sources: only these can be run."""

SOURCE_KEY: Final = "data_source"
"""The key of the source partition."""
OFFSET: Final = "offset"
"""In a source offset: where reading resumes, in the data source's own form."""
START: Final = "from"
END: Final = "to"
PARTITIONS: Final = "partitions"
READ: Final = "read"
"""In a source offset within a plan: its bounds, the number of partitions, and how many of them have been read."""

CONFIG_DEF: Final = ConfigDef()
_settings: Final = CONFIG_DEF.group()

SOURCE: Final = _settings.text(
    "data.source",
    f"The data source: the name of an entry point of the group {GROUP}. Its options are the "
    f"settings with the prefix {OPTION}",
    recommender=InstalledChoices(GROUP),
    display_name="Data source",
)
TOPIC: Final = _settings.text("topic", "The topic to write to: one record per row.", display_name="Topic")
POLL_INTERVAL: Final = _settings.integer(
    "poll.interval.ms",
    "Milliseconds between two checks for new rows when there were none.",
    1000,
    10,
    display_name="Poll interval (ms)",
)
