"""Ringfence: source connectors that write to Apache Kafka exactly once."""

from ringfence import aliases

__version__ = "0.3.0"

aliases.install()
