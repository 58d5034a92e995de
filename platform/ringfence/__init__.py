"""Ringfence: source connectors that write to Apache Kafka exactly once."""

__version__ = "0.1.0"
