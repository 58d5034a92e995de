"""KafkaSource: the topics of a Kafka cluster, with keys, values, headers, timestamps and partition numbers."""
