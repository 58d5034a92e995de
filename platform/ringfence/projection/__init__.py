"""The projection: Kafka's topics as database rows, for pages and lists. Nothing is decided from it."""
