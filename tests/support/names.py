"""Names that no other test uses, so that tests share one broker without seeing each other."""

import itertools
import os

_numbers = itertools.count(1)


def unique(prefix: str = "t") -> str:
    """`prefix` with the process and a running number behind it."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"
