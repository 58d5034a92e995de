"""Positions in the write-ahead log (LSNs): integers in offsets, `16/B374D848` in SQL and messages."""


def lsn_text(number: int) -> str:
    """Format a position as the server does."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """Parse a position that the server has written."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
