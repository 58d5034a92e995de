"""Reads encoded record batches with another client."""

from kafka.record.default_records import DefaultRecordBatch

from ringfence.fencing.transactions.record_batches import RecordBatch


def read(batch: RecordBatch, producer_id: int = 7, epoch: int = 3, sequence: int = 11) -> DefaultRecordBatch:
    whole = DefaultRecordBatch(batch.head(producer_id, epoch, sequence) + batch.data)
    assert whole.validate_crc()
    assert (whole.is_transactional, whole.is_control_batch) == (True, False)
    assert (whole.producer_id, whole.producer_epoch, whole.base_sequence) == (producer_id, epoch, sequence)
    return whole
