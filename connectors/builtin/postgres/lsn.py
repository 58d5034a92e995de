"""Positions in the write-ahead log: numbers in offsets, `16/B374D848` for the server and for people."""


def lsn_text(number: int) -> str:
    """As the server writes it."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """What the server wrote."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
