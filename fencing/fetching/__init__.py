"""Reads partitions as record batches, as their leaders keep them: confluent-kafka's consumer returns records only."""
