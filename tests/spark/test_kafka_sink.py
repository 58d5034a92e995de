"""A streaming query under Spark, killed again and again: the sink's rows are there once."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.admin import TopicSpec, create_topics, end_offsets
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.topics.topic_log import Isolation, TopicLog
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
SECONDS = 400.0
ROWS = 600


class Query:
    """One checkpoint and topic, and the program that is started on it again and again."""

    def __init__(self, broker: Broker, root: Path, **settings: Any) -> None:
        self.topic = unique("query")
        self.connection = Connection(broker.bootstrap)
        create_topics(self.connection, [TopicSpec(self.topic, 2)], Deadline.after(60))
        self._root = root
        self.marks = root / "marks"
        self.marks.mkdir()
        self.settings = {
            "bootstrap": broker.bootstrap,
            "topic": self.topic,
            "log": f"{self.topic}-log",
            "checkpoint": str(root / "checkpoint"),
            "marks": str(self.marks),
            "rows": ROWS,
            "parts": 3,
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **more: Any) -> None:
        with (self._root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.query", json.dumps(self.settings | more)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    def kill(self) -> None:
        """Driver, JVM and what they have started."""
        if self.process is not None:
            children = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            self.process.wait()
            self.process = None

    def wait(self, done: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log
            return done()

        eventually(look, SECONDS, lambda: f"{what}\n{self.log}", pause=0.1)

    @property
    def log(self) -> str:
        return (self._root / "log").read_text()[-6000:]

    def records(self) -> int:
        """In the topic, whether they count or not."""
        return sum(end_offsets(self.connection, self.topic, [0, 1], Deadline.after(30)).values())

    def visible(self) -> Counter[int]:
        log = TopicLog(self.connection, self.topic, isolation=Isolation.COMMITTED)
        try:
            records = list(log.catch_up(Deadline.after(60)))
            records += log.ahead
            for record in records:
                number = int(record.value or b"")
                assert record.key == record.value
                assert record.partition == number % 2
                assert list(record.headers) == [("parity", str(number % 2).encode())]
            return Counter(int(record.value or b"") for record in records)
        finally:
            log.close()

    def check(self, batches: int) -> None:
        """Each number of the first batches is there, and none is there twice."""
        seen = self.visible()
        missing = [n for n in range(batches * ROWS) if n not in seen]
        twice = [n for n, count in seen.items() if count > 1]
        assert (missing[:5], twice[:5]) == ([], []), f"{len(missing)} missing, {len(twice)} twice\n{self.log}"


def test_driver_killed_while_rows_are_written(broker: Broker, tmp_path: Path) -> None:
    """Killed whenever some rows of a batch have reached the broker."""
    query = Query(broker, tmp_path, slow=0.5)
    try:
        for _ in range(2):
            before = query.records()
            query.start()
            query.wait(lambda before=before: query.records() > before, "rows of a batch")  # type: ignore[misc]
            query.kill()
        before = len(query.visible())
        query.start(slow=0)
        query.wait(lambda: len(query.visible()) >= before + 2 * ROWS, "batches after the last kill")
        query.kill()
        query.check(1)
    finally:
        query.kill()
