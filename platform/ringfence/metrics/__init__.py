"""Prometheus metrics of connectors, tasks and workers, from the projection's rows."""
