"""Finds in Kafka where a record came from, and which records were committed with a source offset."""

from collections.abc import Mapping, Sequence
from typing import Any

from ringfence.engine.browsing.records import Writer, check_topic, on_topic, scrubber_of, writers_of
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.questions import FindOrigin, FindRecords
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.fencing.kafka.open_transactions import Transaction as Held
from ringfence.fencing.kafka.record_batches import Marker
from ringfence.fencing.provenance.committed_records import CommittedRecords, find_records
from ringfence.fencing.provenance.origin import Producer, Transaction, find_producer, find_transaction
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig


def find_origin(
    request: FindOrigin, worker: WorkerConfig, rules: TopicRules, offsets: ConnectorOffsets, limit: Deadline
) -> dict[str, object]:
    """Return the origin as JSON: `transaction` is null if the record belongs to none; `source` is null if its source
    offsets are not found, and `why` has the reason. Raises `Refusal`."""
    check_topic(request.place, worker, rules)
    writers = writers_of(request.place, worker)

    def ask(connection: Connection) -> dict[str, object]:
        producer = find_producer(connection, request.place.topic, request.partition, request.offset, limit)
        owner, problem = _holder(connection, producer, limit)
        source, why = _source(request, worker, writers, offsets, connection, producer, owner, limit)
        source_json = None if source is None else _source_json(source, scrubber_of(writers))
        return {**_producer_json(producer, owner, problem), "source": source_json, "why": why}

    return on_topic(request.place, worker, writers, ask)


def _holder(connection: Connection, producer: Producer, limit: Deadline) -> tuple[Held | None, str]:
    """Return the transactional id that has the producer id now, as its coordinator describes it; and a problem."""
    if producer.segment is None:
        return None, ""
    try:
        with HangingProber(connection) as prober:
            return prober.owners({producer.producer_id}, limit).get(producer.producer_id), ""
    except FencingError as error:
        return None, str(error)


def _producer_json(producer: Producer, owner: Held | None, problem: str) -> dict[str, object]:
    segment = producer.segment
    if segment is None:
        return {"transaction": None}
    return {
        "transaction": {
            "producer_id": producer.producer_id,
            "epoch": producer.epoch,
            "state": {None: "open", Marker.COMMIT: "committed", Marker.ABORT: "aborted"}[segment.marker],
            "marker_offset": segment.marker_offset,
            "marker_ms": segment.marker_ms,
            "transactional_id": owner.transactional_id if owner else "",
            "coordinator_state": owner.state if owner else "",
            "coordinator_epoch": owner.epoch if owner else -1,
            "problem": problem,
        }
    }


def _source(
    request: FindOrigin,
    worker: WorkerConfig,
    writers: Sequence[Writer],
    offsets: ConnectorOffsets,
    connection: Connection,
    producer: Producer,
    owner: Held | None,
    limit: Deadline,
) -> tuple[Transaction | None, str]:
    if producer.segment is None:
        return None, "The record was written without a transaction, so nothing ties it to a source offset."
    if producer.segment.marker is None:
        return None, "The transaction is open: its source offsets are written when it is committed."
    if producer.segment.marker is Marker.ABORT:
        return (
            None,
            "The transaction was aborted: no read_committed reader sees the record, and no source offset was committed "
            "with it.",
        )
    likely = [
        each for each in writers if owner and owner.transactional_id.startswith(f"{worker.group_id}-{each.name}-")
    ]
    troubles = []
    for writer in likely or writers:
        try:
            stores = offsets.stores(writer.config, limit)
            data = (connection, sorted({*writer.topics, request.place.topic}))
            where = [(stores.effective.reading, stores.effective.name)]
            source = find_transaction(producer, data, where, limit)
        except FencingError as error:
            troubles.append(f"{writer.name}: {error}")
        else:
            if source is not None:
                return source, ""
    if troubles:
        return None, f"Its source offsets could not be read: {'; '.join(troubles)}. Ask again."
    if not writers:
        return None, "No connector of this cluster is known to write to this topic."
    return None, (
        "No source offset of this transaction is in the offsets topic: a newer one has replaced it (compaction), the "
        "connector commits a consumer group's offsets, or another client wrote the record."
    )


def _source_json(source: Transaction, scrubber: Scrubber) -> dict[str, object]:
    return {
        "connector": source.connector,
        "task": source.task,
        "generation": source.generation,
        "attempt": source.attempt,
        "exact": source.exact,
        "offsets": [
            {
                "topic": each.topic,
                "kafka_partition": each.kafka_partition,
                "kafka_offset": each.kafka_offset,
                "partition": scrubber.value(dict(each.partition)),
                "offset": None if each.offset is None else scrubber.value(dict(each.offset)),
                "before": None if each.before is None else scrubber.value(dict(each.before)),
            }
            for each in source.offsets
        ],
    }


def find_records_of(
    request: FindRecords, worker: WorkerConfig, offsets: ConnectorOffsets, limit: Deadline
) -> dict[str, Any]:
    """Return the records as JSON; `found` is null if the source offset is no longer in its topic. Raises `Refusal`."""
    (writer,) = writers_of(request.place, worker)

    def ask(connection: Connection) -> CommittedRecords | None:
        stores = offsets.stores(writer.config, limit)
        where = (stores.effective.reading, stores.effective.name)
        data = (connection, sorted(writer.topics))
        return find_records(writer.name, request.partition, request.offset, request.time_ms, where, data, limit)

    try:
        records = on_topic(request.place, worker, [writer], ask)
    except FencingError as error:
        raise Refusal(500, f"The records of that source offset cannot be found: {error}") from error
    return {"found": None if records is None else _found_json(records)}


def _found_json(records: CommittedRecords) -> Mapping[str, object]:
    return {
        "topic": records.topic,
        "kafka_partition": records.kafka_partition,
        "kafka_offset": records.kafka_offset,
        "producer_id": records.producer_id,
        "epoch": records.epoch,
        "task": records.task,
        "generation": records.generation,
        "exact": records.exact,
        "records": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "first": each.first,
                "last": each.last,
                "count": each.count,
            }
            for each in records.records
        ],
    }
