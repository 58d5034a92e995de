"""The data browser: topics, their records, and where a record came from."""
