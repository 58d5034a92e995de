"""Counts in Kafka itself whether a connector was exactly once, and says what cannot be counted."""
