"""For your own Spark programs: an exactly-once Kafka sink for Structured Streaming. See docs/spark-sink.md."""

from ringfence.spark.kafka_sink import KafkaSink, kafka_sink
from ringfence.spark.settings import RepeatDiffers, SinkError, Superseded

__all__ = ["KafkaSink", "RepeatDiffers", "SinkError", "Superseded", "kafka_sink"]
