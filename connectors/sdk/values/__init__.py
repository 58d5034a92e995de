"""Values as Kafka Connect writes and reads them as text."""
