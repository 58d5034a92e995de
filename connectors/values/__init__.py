"""Values as Kafka Connect writes and reads them in texts."""
