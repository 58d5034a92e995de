"""The exactly-once kernel. It depends on Kafka and nothing else."""
