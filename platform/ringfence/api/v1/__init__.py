"""The native API under `/api/v1/`, for everything that Kafka Connect's API does not cover. One module per resource."""
