"""Imports much in less time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Import within the block a fifth quicker: nothing of a module is garbage, and looking for some takes that long.

    Later collections leave out what there is at its end, so the pages of memory that it fills stay shared after a fork.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
