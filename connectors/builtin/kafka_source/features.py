"""What KafkaSource contributes to the platform: what becomes of MirrorMaker's settings."""

from typing import Final

from ringfence.connectors.sdk.features import Features
from ringfence.connectors.sdk.foreign_names import NO_EFFECT, ForeignNames

_IGNORED: Final = {
    **dict.fromkeys(
        ("groups", "groups.exclude", "emit.checkpoints.enabled", "emit.checkpoints.interval.seconds",
         "sync.group.offsets.enabled", "sync.group.offsets.interval.seconds"),
        "KafkaSource copies records, not the offsets of groups. For those, run MirrorCheckpointConnector.",
    ),
    **dict.fromkeys(("emit.heartbeats.enabled", "emit.heartbeats.interval.seconds"),
                    "KafkaSource sends no heartbeats. Remove it."),
    **dict.fromkeys(
        ("sync.topic.acls.enabled", "sync.topic.acls.interval.seconds"),
        "KafkaSource copies no ACLs. Remove it.",
    ),
    **dict.fromkeys(
        ("refresh.topics.enabled", "sync.topic.configs.enabled", "sync.topic.configs.interval.seconds",
         "emit.offset-syncs.enabled"),
        NO_EFFECT,
    ),
}  # fmt: skip

FEATURES: Final = Features(
    foreign_names=ForeignNames(
        ignored=_IGNORED,
        ignored_prefixes={"offset-syncs.": "KafkaSource needs no topic of offset syncs. Remove it."},
        families=("source.cluster.", "source.consumer.", "target.cluster."),
    )
)
