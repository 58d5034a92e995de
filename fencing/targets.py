"""Where a generation's tasks write, in the words of its connector's configuration.

The count record keeps it, so that the next round knows where the old tasks wrote although the configuration is another
one by then. Values stay as they stand in the config topic, placeholders included.
"""

from collections.abc import Mapping
from typing import Final

from connectors.delivery_settings import OFFSETS_STORAGE_TOPIC
from fencing.kafka.overrides import BOOTSTRAP, Role

_OVERRIDES: Final = tuple(f"{role}.override." for role in Role)


def may_keep_own_offsets(config: Mapping[str, str]) -> bool:
    """Whether the connector's offsets may be in another topic than the worker's; a worker knows for certain."""
    return OFFSETS_STORAGE_TOPIC in config or f"{Role.PRODUCER}.override.{BOOTSTRAP}" in config


def target_of(config: Mapping[str, str]) -> dict[str, str]:
    """The settings that say where records and offsets go, and how they get there."""
    return {
        name: value for name, value in config.items() if name == OFFSETS_STORAGE_TOPIC or name.startswith(_OVERRIDES)
    }
