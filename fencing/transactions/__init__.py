"""A transactional producer of our own, for Kafka's transactions v2 (KIP-890) and for older brokers (KIP-98, KIP-360)."""
