"""What a worker reads from Kafka to answer a question of the web."""
