"""For Spark's own programs: an exactly-once Kafka sink for Structured Streaming. docs/spark-sink.md shows it."""

from ringfence.spark.errors import RepeatDiffers, SinkError, Superseded
from ringfence.spark.kafka_sink import KafkaSink, kafka_sink

__all__ = ["KafkaSink", "RepeatDiffers", "SinkError", "Superseded", "kafka_sink"]
