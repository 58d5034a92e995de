"""A streaming query as a program: numbers from Spark's rate source to Kafka, by Ringfence's sink or Spark's own.

`python -m tests.spark.query '{"sink": "ringfence", …}'`: it ends by itself where the settings name a step to die at.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ringfence.fencing.kafka.open_transactions import TransactionEnder
from ringfence.spark import kafka_sink
from ringfence.spark.batches import BatchWriter
from ringfence.spark.records import SinkLog

STEPS: dict[str, tuple[type, str, bool, bool]] = {
    "before the parts": (BatchWriter, "_have_parts", False, False),
    "parts written": (BatchWriter, "_check_open", False, False),
    "parts checked": (SinkLog, "decide", False, False),
    "decided": (SinkLog, "decide", True, False),
    "first part committed": (TransactionEnder, "commit", True, True),
    "all parts committed": (BatchWriter, "_write_new", True, False),
}
"""Owner and name of a method, whether to die after it, and whether it deals with the first item only."""


def die() -> None:
    """Python, the JVM and the executors of a local session, at once."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


def die_at(step: str, batch: int) -> None:
    """In the middle of the batch of this number."""
    owner, name, after, part = STEPS[step]
    real: Callable[..., Any] = getattr(owner, name)
    write: Callable[..., Any] = BatchWriter.write
    now: list[int] = []

    def note(self: BatchWriter, number: int, *words: Any) -> None:
        now.append(number)
        write(self, number, *words)
        now.clear()

    def call(self: Any, *words: Any) -> Any:
        if now != [batch]:
            return real(self, *words)
        if after:
            real(self, *([words[0][:1], *words[1:]] if part else words))
        return die()

    setattr(owner, name, call)
    setattr(BatchWriter, "write", note)  # noqa: B010 - mypy sees a method


def session(settings: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.master(settings.get("master", "local[2]")).appName("query")
    common = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        # A process that lives for seconds: most of its time would go into compilers.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    for name, value in {**common, **settings.get("conf", {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def numbers(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    """`rows` new numbers in each batch, over `parts` partitions, from 0 on."""
    stream = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", settings["rows"])
        .option("numPartitions", settings["parts"])
        .load()
    )
    return shape(stream)


def shape(rows: DataFrame) -> DataFrame:
    """All columns that a sink knows, made of `value`."""
    return rows.selectExpr(
        "cast(value as string) value",
        "cast(cast(value as string) as binary) key",
        "array(named_struct('key', 'parity', 'value', cast(cast(value % 2 as string) as binary))) headers",
        "cast(value % 2 as int) partition",
    )


def slow(marks: str, seconds: float) -> Callable[[Any], Any]:
    """On the executors: the first attempt of part 0 of each batch tells its process id, and takes its time."""

    def wait(blocks: Any) -> Any:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            Path(marks, f"{os.getpid()}-{time.monotonic_ns()}").touch()
            for block in blocks:
                for start in range(0, block.num_rows, 50):
                    yield block.slice(start, 50)
                    time.sleep(seconds)
        else:
            yield from blocks

    return wait


def write_table(rows: DataFrame, settings: dict[str, Any]) -> None:
    """As one batch."""
    sink = kafka_sink(settings["bootstrap"], settings["topic"], sink_id=settings["topic"], log_topic=settings["log"])
    sink(rows, 0)
    sink.close()
    Path(settings["progress"]).write_text("0")


def main() -> None:
    settings = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if settings.get("die_at"):
        die_at(settings["die_at"], settings["batch"])
    spark = session(settings)
    if "table" in settings:
        write_table(shape(spark.read.parquet(settings["table"])), settings)
        return
    rows = numbers(spark, settings)
    if settings.get("slow"):
        rows = rows.mapInArrow(slow(settings["marks"], settings["slow"]), rows.schema)
    writer = rows.writeStream.option("checkpointLocation", settings["checkpoint"]).trigger(
        processingTime="200 milliseconds"
    )
    if settings["sink"] == "ringfence":
        sink = kafka_sink(
            settings["bootstrap"], settings["topic"], sink_id=settings["topic"], log_topic=settings["log"]
        )

        def write(batch: DataFrame, number: int) -> None:
            sink(batch, number)
            Path(settings["progress"]).write_text(str(number))

        query = writer.foreachBatch(write).start()
    else:
        own = writer.format("kafka").option("kafka.bootstrap.servers", settings["bootstrap"])
        query = own.option("topic", settings["topic"]).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
