"""The answers of `/api/v1/topics`."""

from typing import Any

from rest_framework import serializers


class TopicShape(serializers.Serializer[Any]):
    """`connectors`: those that write to it and that you may see. `offsets`: from the first to the end, over all
    partitions; null if Kafka did not answer. `elsewhere`: on a connector's own cluster. `internal`: its purpose.
    """

    topic = serializers.CharField()
    connectors = serializers.ListField(child=serializers.CharField())
    elsewhere = serializers.BooleanField()
    internal = serializers.CharField(allow_blank=True)
    readable = serializers.BooleanField()
    partitions = serializers.IntegerField(allow_null=True)
    replicas = serializers.IntegerField(allow_null=True)
    offsets = serializers.IntegerField(allow_null=True)
    newest_ms = serializers.IntegerField(allow_null=True)
    settings = serializers.DictField(child=serializers.CharField())


class TopicListShape(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    page = serializers.IntegerField()
    pages = serializers.IntegerField()
    problem = serializers.CharField(allow_blank=True)
    results = TopicShape(many=True)


class RecordFieldShape(serializers.Serializer[Any]):
    """`kind`: null, empty, string, JSON, JSON with schema, Avro, JSON Schema, Protobuf or hex. `size`: of the whole in
    bytes, -1 for null; `cut`: the text is only the beginning. `problem`: why the schema was not used.
    """

    kind = serializers.CharField()
    text = serializers.CharField(allow_blank=True, trim_whitespace=False)
    size = serializers.IntegerField()
    cut = serializers.BooleanField()
    schema = serializers.CharField(allow_blank=True)
    problem = serializers.CharField(allow_blank=True)


class RecordHeaderShape(RecordFieldShape):
    name = serializers.CharField(allow_blank=True, trim_whitespace=False)


class TopicRecordShape(serializers.Serializer[Any]):
    """`seen`: committed; with read_uncommitted also aborted, open, and waiting: committed, but behind an open
    transaction."""

    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    timestamp_ms = serializers.IntegerField()
    seen = serializers.ChoiceField(choices=["committed", "aborted", "open", "waiting"])
    key = RecordFieldShape()
    value = RecordFieldShape()
    headers = RecordHeaderShape(many=True)


class TopicPartitionShape(serializers.Serializer[Any]):
    """`stable`: the last stable offset; `start`, `until`: the range that was read."""

    partition = serializers.IntegerField()
    first = serializers.IntegerField()
    stable = serializers.IntegerField()
    end = serializers.IntegerField()
    start = serializers.IntegerField()
    until = serializers.IntegerField()


class OpenTransactionShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    producer_id = serializers.IntegerField()
    first_offset = serializers.IntegerField()
    transactional_id = serializers.CharField(allow_blank=True)
    since_ms = serializers.IntegerField()


class TopicRecordsShape(serializers.Serializer[Any]):
    """The oldest first; from `latest`, the newest first. `cursor`: the parameter of the next page of the same search;
    `more`: whether it may contain records. `complete`: neither time nor size ended the search. `scanned`: offsets.
    """

    topic = serializers.CharField()
    records = TopicRecordShape(many=True)
    partitions = TopicPartitionShape(many=True)
    partition_count = serializers.IntegerField()
    cursor = serializers.CharField()
    more = serializers.BooleanField()
    complete = serializers.BooleanField()
    scanned = serializers.IntegerField()
    open_transactions = OpenTransactionShape(many=True)


class RecordTransactionShape(serializers.Serializer[Any]):
    """`state`: committed, aborted or open. `coordinator_state` and `_epoch`: of the transactional id that now has the
    producer id.
    """

    producer_id = serializers.IntegerField()
    epoch = serializers.IntegerField()
    state = serializers.ChoiceField(choices=["committed", "aborted", "open"])
    marker_offset = serializers.IntegerField()
    marker_ms = serializers.IntegerField()
    transactional_id = serializers.CharField(allow_blank=True)
    coordinator_state = serializers.CharField(allow_blank=True)
    coordinator_epoch = serializers.IntegerField()
    problem = serializers.CharField(allow_blank=True)


class RecordOffsetShape(serializers.Serializer[Any]):
    """`before`: the offset of that source partition before this transaction, if it is still in the topic."""

    topic = serializers.CharField()
    kafka_partition = serializers.IntegerField()
    kafka_offset = serializers.IntegerField()
    partition = serializers.DictField()
    offset = serializers.DictField(allow_null=True)
    before = serializers.DictField(allow_null=True)


class RecordSourceShape(serializers.Serializer[Any]):
    """`exact`: proved by the numbers that brokers and tasks keep; otherwise the nearest transaction of that producer in
    time. task, generation, attempt: -1 if an earlier version wrote it.
    """

    connector = serializers.CharField()
    task = serializers.IntegerField()
    generation = serializers.IntegerField()
    generation_number = serializers.IntegerField()
    attempt = serializers.IntegerField()
    exact = serializers.BooleanField()
    offsets = RecordOffsetShape(many=True)


class RecordOriginShape(serializers.Serializer[Any]):
    """`transaction`: null for a record without one. `why`: why there is no `source`."""

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    transaction = RecordTransactionShape(allow_null=True)
    why = serializers.CharField(allow_blank=True)

    def get_fields(self) -> dict[str, Any]:
        return {
            **super().get_fields(),
            "source": RecordSourceShape(allow_null=True),
        }  # every field has an attribute of this name
