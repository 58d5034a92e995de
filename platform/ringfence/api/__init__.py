"""Kafka Connect's REST API at the root of the HTTP port."""
