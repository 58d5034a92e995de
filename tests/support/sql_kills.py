"""Kills a task of SqlSource again and again while others write to its database, and counts every row."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from ringfence.connectors.builtin.sql.task import SqlSourceTask
from ringfence.fencing.kafka.connection import Connection
from tests.guarantees.stage import Stage
from tests.support.attempts import Attempts

_TEXT = "org.apache.kafka.connect.storage.StringConverter"
_TRANSFORMS = "org.apache.kafka.connect.transforms"


def read_under_kills(
    bootstrap: str,
    name: str,
    config: Mapping[str, str],
    worker: Mapping[str, str],
    writers: Sequence[Callable[[], None]],
    kills: Sequence[int],
    wanted: int,
) -> list[int]:
    """The ids that a read_committed reader sees in the end, sorted.

    Rows have a column `id`. writers: run on threads of their own; kills: how many rows must be visible before each
    kill; wanted: how many rows there are in the end.
    """
    stage = Stage(Connection(bootstrap), name)
    config = {
        **config,
        "name": str(stage.connector),
        "connector.class": "SqlSource",
        "tasks.max": "1",
        "key.converter": _TEXT,
        "value.converter": _TEXT,
        "transforms": "id,topic,text",
        "transforms.id.type": f"{_TRANSFORMS}.ExtractField$Value",
        "transforms.id.field": "id",
        "transforms.topic.type": f"{_TRANSFORMS}.RegexRouter",
        "transforms.topic.regex": ".*",
        "transforms.topic.replacement": stage.data,
        "transforms.text.type": f"{_TRANSFORMS}.Cast$Value",
        "transforms.text.spec": "string",
        "transaction.boundary": "poll",
        "exactly.once.support": "required",
    }
    threads = [threading.Thread(target=each) for each in writers]
    with closing(stage), Attempts(stage, config, SqlSourceTask, worker) as attempts:
        for each in threads:
            each.start()
        for least in kills:
            attempts.start()
            attempts.await_visible(least)
            attempts.newest.kill()
        for each in threads:
            each.join()
        attempts.start()
        attempts.await_visible(wanted)
        assert attempts.newest.stop()["trace"] is None
        return sorted(stage.visible())
