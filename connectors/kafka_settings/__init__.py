"""Kafka's Java client settings in librdkafka's words; for the runtime's clients, and for connectors that read Kafka."""
