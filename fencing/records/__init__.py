"""A record's way into a transaction: transform, convert, produce; what happens to a bad one."""
