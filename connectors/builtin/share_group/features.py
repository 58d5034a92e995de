"""What ShareGroupSource contributes to the platform: where its share group is, for preflight checks."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.sdk.features import Features, ShareInput
from ringfence.connectors.sdk.kafka_settings.share_group import TOPICS


def find_share_input(config: Mapping[str, str]) -> ShareInput:
    """Return the settings of the source's clients, and the topics."""
    from ringfence.connectors.builtin.kafka_source.cluster import (
        source_settings,  # with a Kafka client, for workers only
    )

    source = source_settings(config)
    topics = [each for part in config.get(TOPICS, "").split(",") if (each := part.strip())]
    return ShareInput(None if source.errors else source.settings, topics)


FEATURES: Final = Features(
    share_input=find_share_input,
    sections=[(".*", "share-groups#settings", "Settings of ShareGroupSource")],
)
