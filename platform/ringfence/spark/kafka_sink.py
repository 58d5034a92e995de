"""The sink as a function for `foreachBatch`. It takes the columns of Spark's own Kafka sink."""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final, NoReturn

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users write it
from pyspark.sql import types as spark

from ringfence.fencing.kafka.open_transactions import OpenTransaction
from ringfence.spark.batches import Assignment, BatchWriter, write_part
from ringfence.spark.records import Part
from ringfence.spark.settings import SinkError, SinkSettings, read_settings

_QUERY_ID = "sql.streaming.queryId"
_REPORT = "part int, rows bigint, digest bigint, first boolean, id string, producer bigint, epoch int"
_TEXT: Final = (spark.StringType, spark.BinaryType)
_KNOWN: Final = ("key", "value", "headers", "topic", "partition")
_BYTES: Final = ("key", "value")


class KafkaSink:
    """`sink(rows, batch_id)` writes a batch to Kafka exactly once. Created by `kafka_sink`; lives in the driver."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._writer = BatchWriter(settings)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write a batch. Raises `SinkError`; then nothing is duplicated, and a restarted query continues.

        batch_id: outside of a streaming query, any number that increases from batch to batch.
        """
        context = rows.sparkSession.sparkContext
        query = context.getLocalProperty(_QUERY_ID) or ""
        speculates = context.getConf().get("spark.speculation", "false") == "true"
        shaped = shape(rows, self._settings.topic)
        self._writer.write(batch_id, query, lambda assignment: _write_parts(shaped, assignment), speculates)

    def close(self) -> None:
        """Close Kafka's client. Optional: the next run fences this one."""
        self._writer.close()

    def __reduce__(self) -> NoReturn:
        raise SinkError("The sink runs in the driver's own Python: use a classic session, not Spark Connect.")


def kafka_sink(
    bootstrap_servers: str,
    topic: str | None = None,
    *,
    sink_id: str,
    options: Mapping[str, str] | None = None,
    transaction_timeout_ms: int = 600_000,
    log_topic: str = "ringfence-spark-sinks",
    repeated_batch: str = "compare",
    other_checkpoint: str = "refuse",
) -> KafkaSink:
    """Return an exactly-once Kafka sink: `query.writeStream.foreachBatch(kafka_sink(…))`.

    Rows have the columns of Spark's own Kafka sink: `value`, and optionally `key`, `headers`, `partition` and, if no
    topic is given here, `topic`. docs/spark-sink.md describes the guarantee and all settings. Raises `SinkError`.
    """
    missing = [name for name in ("pandas", "pyarrow") if find_spec(name) is None]
    if missing:
        raise SinkError(
            f"{' and '.join(missing)} must be installed, here and on the executors: `pip install 'ringfence[spark]'`."
        )
    settings = read_settings(
        bootstrap_servers,
        topic,
        sink_id,
        options or {},
        transaction_timeout_ms,
        log_topic,
        repeated_batch,
        other_checkpoint,
    )
    return KafkaSink(settings)


def _write_parts(rows: DataFrame, assignment: Assignment) -> list[Part]:
    return [_parse(row) for row in rows.mapInArrow(_writing(assignment), _REPORT).collect()]


def _writing(assignment: Assignment) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what an executor runs for each of its partitions, on Arrow's record batches."""

    def write(blocks: Iterator[Any]) -> Iterator[Any]:
        from pyarrow import RecordBatch

        context = TaskContext.get()
        assert context is not None
        attempt = context.taskAttemptId() if context.attemptNumber() else None
        part = write_part(assignment, context.partitionId(), attempt, (block.to_pydict() for block in blocks))
        if part is not None:
            yield RecordBatch.from_pylist([_report(part)], schema=_report_schema())

    return write


def _report_schema() -> Any:
    import pyarrow as pa

    kinds = {"int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "string": pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in (each.split() for each in _REPORT.split(", "))])


def _report(part: Part) -> dict[str, object]:
    at = part.transaction
    return {
        "part": part.number,
        "rows": part.rows,
        "digest": part.digest,
        "first": part.first,
        "id": at.transactional_id if at else None,
        "producer": at.producer_id if at else None,
        "epoch": at.epoch if at else None,
    }


def _parse(row: Any) -> Part:
    at = OpenTransaction(row["id"], row["producer"], row["epoch"]) if row["id"] is not None else None
    return Part(row["part"], row["rows"], row["digest"], at, row["first"])


def shape(rows: DataFrame, topic: str | None) -> DataFrame:
    """Return the known columns of `rows`, and `digest`, a hash of them all. Raises `SinkError`."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    if "value" not in types:
        raise SinkError(f"There is no column value, only {', '.join(types)}: select to_json(struct(*)) AS value.")
    for name in _BYTES:
        if name in types and not isinstance(types[name], _TEXT):
            kind = types[name].simpleString()
            raise SinkError(
                f"The column {name} is {kind}: convert it to a string or binary, for example by CAST({name} AS STRING)."
            )
    if topic is None and "topic" not in types:
        raise SinkError("There is no column topic: set a topic for the sink, or select one.")
    if "topic" in types and not isinstance(types["topic"], spark.StringType):
        raise SinkError("The column topic is not a string.")
    if "partition" in types and not isinstance(types["partition"], spark.IntegerType):
        raise SinkError("The column partition is not an int: CAST(partition AS INT).")
    if "headers" in types and not _are_headers(types["headers"]):
        raise SinkError("The column headers is not an array<struct<key:string,value:binary>>.")
    names = [name for name in _KNOWN if name in types and not (name == "topic" and topic is not None)]
    columns = [F.col(name).cast("binary").alias(name) if name in _BYTES else F.col(name) for name in names]
    selected = rows.select(*columns)
    return selected.select("*", F.xxhash64(*names).alias("digest"))


def _are_headers(kind: spark.DataType) -> bool:
    if not (isinstance(kind, spark.ArrayType) and isinstance(kind.elementType, spark.StructType)):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", spark.StringType), ("value", spark.BinaryType)]
