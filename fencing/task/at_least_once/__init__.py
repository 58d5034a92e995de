"""A source task without transactions: offsets are written after the records are acknowledged (KIP-618,
disabled mode).
"""
