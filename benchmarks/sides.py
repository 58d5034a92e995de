"""What both sides have in common: a worker that runs, its REST API, its process tree."""

from typing import Protocol


class Side(Protocol):
    """A worker of one kind. `start` returns when a connector can be created."""

    url: str

    @property
    def pid(self) -> int:
        """The worker's process; all that it started counts with it."""

    def start(self) -> None: ...

    def stop(self) -> None: ...
