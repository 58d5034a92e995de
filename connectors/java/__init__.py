"""Runs Kafka Connect's source connectors, unmodified, in Java processes (docs/kafka-connect-plugins.md)."""
