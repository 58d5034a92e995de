"""Names: how long one may be in a Kafka string or a database column, and lists of them in messages. Pure.

A Kafka string ends at 32,767 bytes, a row of an index in PostgreSQL at about 2,700, and a transactional id holds
`group.id`, a connector's name and a task's number. A client that sends a longer string loses its connection.
"""

from collections.abc import Sequence
from typing import Final

MAX_NAME_BYTES: Final = 249
_SHOWN: Final = 60


def is_long(name: str) -> bool:
    """Return whether the name has too many bytes in UTF-8."""
    return len(name) > MAX_NAME_BYTES or len(name.encode(errors="replace")) > MAX_NAME_BYTES


def describe_length(name: str) -> str:
    """Return why a long name is refused; "" for one that is not long."""
    if not is_long(name):
        return ""
    size = len(name.encode(errors="replace"))
    return f"it has {size:,} bytes, and a name may have {MAX_NAME_BYTES} at most. Choose a shorter one"


def shorten(text: str) -> str:
    """Return the text for a message; of a long one, its beginning and its size."""
    if len(text) <= MAX_NAME_BYTES:
        return text
    return f"{text[:_SHOWN]}… ({len(text.encode(errors='replace')):,} bytes)"


def list_first(names: Sequence[str], most: int) -> str:
    """Return the first `most` names, and how many others there are: "a, b and 3 more"."""
    text = ", ".join(names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text
