"""For your own Spark programs: an exactly-once Kafka sink for Structured Streaming. See docs/spark-sink.md."""

from ringfence.spark.errors import RepeatDiffers, SinkError, Superseded
from ringfence.spark.kafka_sink import KafkaSink, kafka_sink

__all__ = ["KafkaSink", "RepeatDiffers", "SinkError", "Superseded", "kafka_sink"]
