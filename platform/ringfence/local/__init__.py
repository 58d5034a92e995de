"""Runs everything on one machine: the embedded Kafka and Valkey, and the supervisor behind `ringfence up`."""
