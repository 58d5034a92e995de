"""The data browser: topics, their records, and the origin of a record."""
