"""The command line client. It only uses REST and imports neither Django nor a Kafka client, so it starts fast."""
