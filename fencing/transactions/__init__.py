"""A transactional producer of our own: transactions v2 (KIP-890), and older brokers (KIP-98, KIP-360)."""
