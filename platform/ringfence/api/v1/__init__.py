"""Our own API under `/api/v1/`: what Kafka Connect's has no words for. One module a resource."""
