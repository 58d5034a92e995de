"""The settings and offset fields of VerifiableSource, the same as Kafka's."""

from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigType, Importance, NonEmpty, Range, Width

TOPIC: Final = "topic"
THROUGHPUT: Final = "throughput"
COMPLETE_RECORD_DATA: Final = "complete.record.data"

ID: Final = "id"
"""The task's number: a key of its configuration, and of its source partition."""
SEQNO: Final = "seqno"
"""The key of the source offset: the last number that was delivered."""

CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        TOPIC,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The topic to write the numbers to.",
        width=Width.MEDIUM,
        display_name="Topic",
    )
    .define(
        THROUGHPUT,
        ConfigType.LONG,
        default=-1,
        validator=Range(-1),
        importance=Importance.HIGH,
        documentation="Records per second for each task; -1 for no limit, 0 for no records.",
        width=Width.SHORT,
        display_name="Throughput",
    )
    .define(
        COMPLETE_RECORD_DATA,
        ConfigType.BOOLEAN,
        default=False,
        importance=Importance.LOW,
        documentation="Write connector, task, topic, time and number in each record, instead of the bare number.",
        width=Width.SHORT,
        display_name="Complete record data",
    )
)
