"""A streaming query as a program: numbers from Spark's rate source to Kafka. `python -m tests.spark.query SETTINGS`."""

import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ringfence.spark import kafka_sink


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
            Path(marks, str(os.getpid())).touch()
            for block in blocks:
                for start in range(0, block.num_rows, 50):
                    yield block.slice(start, 50)
                    time.sleep(seconds)
        else:
            yield from blocks

    return wait


def main() -> None:
    settings = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = session(settings)
    rows = numbers(spark, settings)
    if settings.get("slow"):
        rows = rows.mapInArrow(slow(settings["marks"], settings["slow"]), rows.schema)
    writer = rows.writeStream.option("checkpointLocation", settings["checkpoint"]).trigger(
        processingTime="200 milliseconds"
    )
    sink = kafka_sink(settings["bootstrap"], settings["topic"], sink_id=settings["topic"], log_topic=settings["log"])
    writer.foreachBatch(sink).start().awaitTermination()


if __name__ == "__main__":
    main()
