"""The only door to the Kafka clients. Nothing outside this package imports confluent-kafka or kafka-python."""
