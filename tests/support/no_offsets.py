"""A reader of offsets that has none."""

from types import SimpleNamespace
from typing import Any


class NoOffsets:
    """Of a connector that has committed none."""

    def await_view(self) -> None: ...

    def prepare(self, *_: object) -> None: ...

    def read(self, *_: object) -> Any:
        return SimpleNamespace(present=list)
