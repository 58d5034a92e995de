"""The command line client: REST and nothing else, so it imports neither Django nor a Kafka client, and starts fast."""
