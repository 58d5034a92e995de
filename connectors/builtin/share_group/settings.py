"""The settings of ShareGroupSource: KafkaSource's, without those of an assignment, and the share group's."""

from typing import Final

from ringfence.connectors.api import ConfigDef, Importance, NonEmpty, Width
from ringfence.connectors.builtin.kafka_source import settings
from ringfence.connectors.sdk.kafka_settings import share_group

_LEFT_OUT: Final = frozenset({settings.ASSIGNMENT, settings.GROUP_ID, settings.SESSION_TIMEOUT_MS, settings.ISOLATION})

CONFIG_DEF: Final = ConfigDef(key for key in settings.CONFIG_DEF.keys.values() if key.name not in _LEFT_OUT)
_group: Final = CONFIG_DEF.group("Share group")


def _number(name: str, display_name: str, documentation: str) -> None:
    default, least, greatest = share_group.NUMBERS[name]
    _group.long(name, documentation, default, least, greatest, importance=Importance.LOW, display_name=display_name)


_group.text(
    share_group.GROUP,
    "The share group. Default: <group.id>-<name of the connector>. Only this connector may use it. Records have no "
    "order, not even per key.",
    None,
    validator=NonEmpty(),
    width=Width.MEDIUM,
    display_name="Share group",
)
_group.choice(
    share_group.START,
    "Where to start in a topic that the connector has not read before. Partitions that are added to a topic later, and "
    "topics that are created again, are read from their beginning.",
    (share_group.EARLIEST, share_group.LATEST),
    share_group.EARLIEST,
    display_name="Start",
)
_number(
    share_group.LOCK_MS,
    "Lock (ms)",
    "How long a record belongs to one task before another task may get it, too. A record that takes longer is "
    "processed more than once, and committed once.",
)
_number(
    share_group.DELIVERY_LIMIT,
    "Delivery limit",
    "How often the broker delivers a record before it archives it. Archived records are not lost: the sweep reads them "
    "from their topic.",
)
_number(
    share_group.MAX_LOCKS,
    "Locked records",
    "How many records of one partition all tasks together may have. With batch.size, this limits how many tasks find "
    "work in one partition.",
)
_number(
    share_group.SWEEP_AFTER_MS,
    "Sweep after (ms)",
    "After how long a record that no task has committed is read from its topic. 0: the delivery limit times the lock, "
    "and five seconds.",
)
_number(
    share_group.CLAIM_TIMEOUT_MS,
    "Claim timeout (ms)",
    "How long a task waits for another task's open transaction on the same records before it fences that task. Must "
    "exceed the duration of a transaction.",
)
_group.choice(
    share_group.EXHAUSTED,
    "What happens to a record whose processing has ended its task's process every time. retry: it is tried again, "
    "alone. dead-letter: it is written to errors.deadletterqueue.topic.name.",
    (share_group.RETRY, share_group.DEAD_LETTER),
    share_group.RETRY,
    display_name="Exhausted records",
)
