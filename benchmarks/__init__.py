"""Comparisons with the real Kafka Connect: the same file, the same broker, both exactly once (`make bench`)."""
