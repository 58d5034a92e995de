"""Lists of names in messages, which stay short whatever there is to name."""

from collections.abc import Sequence


def list_first(names: Sequence[str], most: int) -> str:
    """Return the first `most` names, and how many others there are: "a, b and 3 more"."""
    text = ", ".join(names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text
