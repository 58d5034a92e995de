"""How long the stages of a request take: measured where they happen, added up where the request began.

The web process shows them in the `Server-Timing` header. A worker sends its own back with its answer, so no two clocks
are compared.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final

Stages = dict[str, float]
"""Milliseconds by the name of the stage."""

FIELD: Final = "stages"
"""The name of a field with stages in the answer of another process."""

Traced = Callable[[str], AbstractContextManager[None]]

_trace: list[Traced] = []
_current: ContextVar[Stages | None] = ContextVar("stages", default=None)
_MOST: Final = 50


def begin() -> Stages:
    """Collect the stages of this context from now on, in the dict that it returns."""
    stages: Stages = {}
    _current.set(stages)
    return stages


@contextmanager
def collect() -> Iterator[Stages]:
    """Collect the stages of this block in the dict that it returns. Blocks in other threads do not count."""
    stages: Stages = {}
    token = _current.set(stages)
    try:
        yield stages
    finally:
        _current.reset(token)


def trace_with(span: Traced | None) -> None:
    """Have each stage be a span, too. None ends that."""
    _trace[:] = [] if span is None else [span]


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Measure this block, if somebody collects stages. A block that runs several times counts as their sum."""
    began = time.perf_counter()
    try:
        if _trace and _current.get() is not None:
            with _trace[0](name):
                yield
        else:
            yield
    finally:
        add({name: (time.perf_counter() - began) * 1000})


def add(stages: Mapping[str, float]) -> None:
    """Add stages that were measured elsewhere."""
    into = _current.get()
    if into is not None:
        for name, ms in stages.items():
            into[name] = into.get(name, 0.0) + ms


def parse(value: object) -> Stages:
    """Read stages that another process has sent; {} if they are none."""
    if not isinstance(value, dict) or len(value) > _MOST:
        return {}
    numbers = {name: ms for name, ms in value.items() if isinstance(name, str) and isinstance(ms, int | float)}
    return {name: float(ms) for name, ms in numbers.items() if math.isfinite(ms)}
