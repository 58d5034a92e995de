"""Proves by counting records in Kafka that a connector was exactly once, and reports what cannot be counted."""
