"""PySparkSource under the kernel, with a data source of an installed package: each row once through kills."""

import textwrap
from pathlib import Path

import pytest

from ringfence.connectors.builtin.pyspark_source.task import PySparkSourceTask
from tests.guarantees.stage import Stage
from tests.support.attempts import WITHOUT_TRANSACTIONS, Attempts

pytestmark = pytest.mark.slow

MODULE = """
    import time
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    BEGAN = time.time()

    class Numbers(DataSource):
        def schema(self):
            return "n string"

        def streamReader(self, schema):
            return Reader(int(self.options["rows"]))

    class Reader(DataSourceStreamReader):
        def __init__(self, rows):
            self.rows = rows

        def initialOffset(self):
            return {"next": 0}

        def latestOffset(self, start, limit):
            # Rows come all the time, so that the end of a plan is another one at each question.
            return {"next": min(self.rows, start["next"] + 200 + int((time.time() - BEGAN) * 1000))}

        def partitions(self, start, end):
            step = max(1, (end["next"] - start["next"] + 4) // 5)
            return [InputPartition((n, min(n + step, end["next"]))) for n in range(start["next"], end["next"], step)]

        def read(self, partition):
            time.sleep(0.02)
            return iter([(str(n),) for n in range(*partition.value)])

        def commit(self, end):
            pass
"""


@pytest.mark.parametrize("worker", [{}, WITHOUT_TRANSACTIONS], ids=["exact", "control"])
def test_each_row_once_while_tasks_are_killed(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: dict[str, str]
) -> None:
    """The control, without transactions, finds rows twice."""
    (tmp_path / "numbers_source.py").write_text(textwrap.dedent(MODULE))
    info = tmp_path / "numbers_source-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numbers-source\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ringfence.data_sources]\nnumbers = numbers_source:Numbers\n")
    monkeypatch.syspath_prepend(tmp_path)  # an attempt's process has the same path
    total = 20_000
    text = "org.apache.kafka.connect.storage.StringConverter"
    config = {
        "name": str(stage.connector),
        "connector.class": "PySparkSource",
        "tasks.max": "1",
        "data.source": "numbers",
        "option.rows": str(total),
        "topic": stage.data,
        "transforms": "n",
        "transforms.n.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.n.field": "n",
        "key.converter": text,
        "value.converter": text,
        "transaction.boundary": "poll",
        "exactly.once.support": "required",
    }
    with Attempts(stage, config, PySparkSourceTask, worker) as attempts:
        for least in (1, 3000, 7000):
            attempts.start()
            attempts.await_visible(least)
            attempts.newest.kill()
        attempts.start()
        attempts.await_visible(total, distinct=True, pause=0.2)
        assert attempts.newest.stop()["trace"] is None
        assert {*stage.visible()} == {*range(total)}, "a row is missing"
        assert (len(stage.visible()) == total) == (not worker), "rows are there twice, or the control sees nothing"
