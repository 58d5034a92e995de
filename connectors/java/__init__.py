"""Kafka Connect's own source connectors, unmodified: a Java process beside each task. docs/kafka-connect-plugins.md."""
