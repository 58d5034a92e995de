"""The settings of ShareGroupSource: KafkaSource's, without those of an assignment, and the share group's."""

from typing import Final

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    Width,
)
from ringfence.connectors.builtin.kafka_source import settings
from ringfence.connectors.kafka_settings import share_group

_LEFT_OUT: Final = frozenset({settings.ASSIGNMENT, settings.GROUP_ID, settings.SESSION_TIMEOUT_MS, settings.ISOLATION})
_GROUP: Final = "Share group"


def _inherit_keys() -> list[ConfigKey]:
    return [key for key in settings.CONFIG_DEF.keys.values() if key.name not in _LEFT_OUT]


def _number(definition: ConfigDef, name: str, display_name: str, documentation: str) -> None:
    default, least, greatest = share_group.NUMBERS[name]
    definition.define(
        name,
        ConfigType.LONG,
        default=default,
        validator=Range(least, greatest),
        importance=Importance.LOW,
        documentation=documentation,
        group=_GROUP,
        width=Width.SHORT,
        display_name=display_name,
    )


def _define() -> ConfigDef:
    config_def = ConfigDef(_inherit_keys())
    config_def.define(
        share_group.GROUP,
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        importance=Importance.MEDIUM,
        documentation="The share group. Default: <group.id>-<name of the connector>. Only this connector may use it. "
        "Records have no order, not even per key.",
        group=_GROUP,
        width=Width.MEDIUM,
        display_name="Share group",
    )
    config_def.define(
        share_group.START,
        ConfigType.STRING,
        default=share_group.EARLIEST,
        validator=OneOf(share_group.EARLIEST, share_group.LATEST),
        recommender=Choices(share_group.EARLIEST, share_group.LATEST),
        importance=Importance.MEDIUM,
        documentation="Where to start in a topic that the connector has not read before. Partitions that are added "
        "to a topic later, and topics that are created again, are read from their beginning.",
        group=_GROUP,
        width=Width.SHORT,
        display_name="Start",
    )
    _number(
        config_def,
        share_group.LOCK_MS,
        "Lock (ms)",
        "How long a record belongs to one task before another task may get it, too. A record that takes longer is "
        "processed more than once, and committed once.",
    )
    _number(
        config_def,
        share_group.DELIVERY_LIMIT,
        "Delivery limit",
        "How often the broker delivers a record before it archives it. Archived records are not lost: the sweep "
        "reads them from their topic.",
    )
    _number(
        config_def,
        share_group.MAX_LOCKS,
        "Locked records",
        "How many records of one partition all tasks together may have. With batch.size, this limits how many tasks "
        "find work in one partition.",
    )
    _number(
        config_def,
        share_group.SWEEP_AFTER_MS,
        "Sweep after (ms)",
        "After how long a record that no task has committed is read from its topic. 0: the delivery limit times the "
        "lock, and five seconds.",
    )
    _number(
        config_def,
        share_group.CLAIM_TIMEOUT_MS,
        "Claim timeout (ms)",
        "How long a task waits for another task's open transaction on the same records before it fences that task. "
        "Must exceed the duration of a transaction.",
    )
    config_def.define(
        share_group.EXHAUSTED,
        ConfigType.STRING,
        default=share_group.RETRY,
        validator=OneOf(share_group.DEAD_LETTER, share_group.RETRY),
        recommender=Choices(share_group.RETRY, share_group.DEAD_LETTER),
        importance=Importance.MEDIUM,
        documentation="What happens to a record whose processing has ended its task's process every time. retry: it "
        "is tried again, alone. dead-letter: it is written to errors.deadletterqueue.topic.name.",
        group=_GROUP,
        width=Width.SHORT,
        display_name="Exhausted records",
    )
    return config_def


CONFIG_DEF: Final = _define()
