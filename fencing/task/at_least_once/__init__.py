"""A source task without transactions: records are acknowledged, offsets follow (KIP-618, disabled mode)."""
