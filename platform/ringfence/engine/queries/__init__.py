"""Reads from Kafka what a worker needs to answer questions of web processes."""
