"""The common interface of both sides: a running worker, its REST API, its process tree."""

from typing import Protocol


class Side(Protocol):
    """A worker of one kind. `start` returns when a connector can be created."""

    url: str

    @property
    def pid(self) -> int:
        """The worker's process id; all that it started is included in the measurement."""

    def start(self) -> None: ...

    def stop(self) -> None: ...
