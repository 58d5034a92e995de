"""The exactly-once kernel: Kafka and nothing else."""
