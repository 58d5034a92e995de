"""Ready bytes by the batch, and the same one record at a time: the very same goes to the producer."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import RecordBatch, SourceRecord, ValueBatch
from ringfence.connectors.api.fetching import Run
from ringfence.connectors.builtin.file_stream.task import FileStreamSourceTask
from ringfence.connectors.builtin.kafka_source.task import KafkaSourceTask
from ringfence.connectors.builtin.verifiable.task import VerifiableSourceTask
from ringfence.engine.spark.task_process import Conversion
from ringfence.fencing.records.prepared_batch import GatheredOffsets
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.transactions.record_columns import RecordColumns
from tests.connectors.fakes import FakeContext
from tests.support.examples import examples
from tests.support.record_paths import Given

JAVA = "org.apache.kafka.connect."
BYTES = f"{JAVA}converters.ByteArrayConverter"
STRING = f"{JAVA}storage.StringConverter"


def produced(batch: RecordBatch | Sequence[SourceRecord], converter: str = BYTES) -> tuple[list[Any], list[Any]]:
    """Topic, value, key, partition, timestamp and headers of each record; the offsets behind them."""
    config = {"key.converter": converter, "value.converter": converter, "header.converter": BYTES}
    path, offsets = RecordPath(Conversion(Given(config, {}))), GatheredOffsets()
    columns: list[RecordColumns] = []
    path.send(path.prepare(batch), columns.append, offsets)
    return [(*each[:5], each[5] or None) for part in columns for each in part.records()], offsets.take()


columns = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        st.lists(st.none() | st.binary(max_size=5), min_size=size, max_size=size),
        st.lists(st.none() | st.binary(max_size=3), min_size=size, max_size=size),
        st.lists(
            st.none() | st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.binary(max_size=2)), max_size=2),
            min_size=size,
            max_size=size,
        ),
        st.lists(st.sampled_from([-1, 0, 1_700_000_000_000]), min_size=size, max_size=size),
    )
)


@settings(max_examples=examples(200))
@given(columns)
def test_kafka_source(parts: tuple[list[Any], list[Any], list[Any], list[int]]) -> None:
    values, keys, headers, times = parts
    run = Run("orders", 3, values, keys, headers, times, list(range(40, 40 + len(values))))
    made = []
    for raw in (True, False):
        task = KafkaSourceTask()
        task.context = FakeContext(raw=raw)
        task._raw_headers, task._alias = True, "here"
        task._partitions, task._targets = {}, {}
        task._rename = functools.partial("here.{}".format)
        made.append(task._batch(run))
    assert isinstance(made[0], RecordBatch)
    assert isinstance(made[1], ValueBatch)
    assert produced(made[0]) == produced(made[1]) == produced(list(made[1]))


def test_file_stream(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n\nz\xc3\xbcrich\nnot \xff utf-8\n" + b"x" * 300 + b"\n")
    found = []
    for raw in (True, False):
        task = FileStreamSourceTask()
        task.context = FakeContext(raw=raw)
        task.start({"file": str(path), "topic": "t"})
        batch = task.poll()
        task.stop()
        assert isinstance(batch, RecordBatch) is raw
        assert batch
        records, offsets = produced(batch, STRING)
        found.append(([record[:4] for record in records], offsets))  # a single record says when it was read
    assert found[0] == found[1]


def test_verifiable_source() -> None:
    found = []
    for raw in (True, False):
        task = VerifiableSourceTask()
        task.context = FakeContext(raw=raw)
        task.start({"name": "v", "id": "4", "topic": "t", "throughput": "-1"})
        batch = task.poll()
        assert isinstance(batch, RecordBatch) is raw
        assert batch
        found.append(produced(batch, STRING))
    assert found[0] == found[1]
