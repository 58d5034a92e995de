"""Incremental snapshots: tables that are read while the stream goes on, chunk by chunk, on request."""
