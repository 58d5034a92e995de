"""Incremental snapshots: read tables on request, chunk by chunk, while the stream continues."""
