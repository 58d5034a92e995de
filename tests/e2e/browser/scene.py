"""Connectors in the states that pages have to show: one that runs and has a history, one that failed, one at rest."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from tests.e2e.flow import Flow
from tests.e2e.rest import Json
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.share_scene import make_share_group
from tests.support.waiting import eventually

_SECONDS = 60.0
_PER_SECOND = 10
"""Records of each task: they flow as long as a page is looked at, and each of them is work for a broker."""


class Scene:
    """`names`: what the connectors are called, by the states they are in; the group, its topic, a snapshot's number."""

    def __init__(
        self,
        up: Up,
        folder: Path,
        naming: Callable[[str], str] = unique,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """`naming`: makes names; `more`: settings of the connector that runs."""
        self.up = up
        self._naming = naming
        self._more = dict(more or {})
        self.names: dict[str, str] = {}
        self._file = folder / "lines.txt"
        self._flows: list[Flow] = []

    def __enter__(self) -> Self:
        self.names["group"], self.names["queue"] = self._naming("group"), self._naming("queue")
        make_share_group(self.up.connection, self.names["group"], self.names["queue"])
        running, stopped = self._flow("running", tasks=2), self._flow("stopped")
        self.names["readers"] = self._naming("readers")
        _commit(self.up, self.names["readers"], running.name)
        self._fail(running.name)
        rest = self.up.rest
        changed = running.config(throughput=str(_PER_SECOND + 1), **self._more)
        rest.settled(200, "PUT", f"/connectors/{running.name}/config", changed)
        rest.settled(204, "PUT", f"/connectors/{stopped.name}/stop")
        stopped.tasks = 0
        stopped.await_states("STOPPED")
        path = f"/api/v1/connectors/{stopped.name}/offset-snapshots"
        kept = rest.expect(201, "POST", path, {"why": "before the weekend"})
        self.names["snapshot"] = str(kept["number"])
        running.await_states("RUNNING")
        running.await_progress(_PER_SECOND)
        return self

    def _flow(self, kind: str, tasks: int = 1) -> Flow:
        flow = Flow(self.up, self._naming(kind), tasks=tasks, throughput=_PER_SECOND, interval_ms=2000).create()
        self._flows.append(flow)
        self.names[kind] = flow.name
        return flow

    def _fail(self, topic: str) -> None:
        """A connector whose source goes away: its task fails, with a trace."""
        name = self.names["failed"] = self._naming("failed")
        self._file.write_text("one\ntwo\n")
        config = {"connector.class": "FileStreamSource", "topic": f"{topic}-lines", "file": str(self._file)}
        rest = self.up.rest
        rest.create(name, config)
        eventually(lambda: rest.expect(200, "GET", f"/connectors/{name}/offsets")["offsets"], _SECONDS, pause=0.2)
        self._file.unlink()
        eventually(lambda: _failed(rest.status(name)), _SECONDS, "a failed task", pause=0.2)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._flows:
            one.close()
        if "failed" in self.names:
            self.up.rest.settled(204, "DELETE", f"/connectors/{self.names['failed']}")


def _commit(up: Up, group: str, topic: str) -> None:
    """A consumer group that was at the topic's beginning, and left."""
    reader = Consumer(up.connection.librdkafka(group_id=group))
    try:
        reader.commit(offsets=[TopicPartition(topic, number, 0) for number in range(3)], asynchronous=False)
    finally:
        reader.close()


def _failed(status: Json) -> bool:
    return any(task["state"] == "FAILED" for task in status["tasks"])
