"""Reads tables with SparkTableSource, in this process."""

from ringfence.connectors.api import OffsetRecord, RecordBatch, SourceRecord, Struct
from ringfence.connectors.builtin.spark_table.task import SparkTableSourceTask
from tests.connectors.fakes import FakeContext, FakeOffsets
from tests.support.postgres import Postgres


def postgres_config_of(server: Postgres, table: str, **more: str) -> dict[str, str]:
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/ringfence"
    return {"url": url, "dbtable": table, "user": "ringfence", "topic": "t", "batch.size": "7", **more}


class Reader:
    """The offsets and rows of a connector whose tasks live for some polls each."""

    def __init__(self, config: dict[str, str]) -> None:
        self.config = config
        self.offsets = FakeOffsets()
        self.rows: list[Struct] = []

    def live(self, polls: int, share: str = "0/1", **more: str) -> FakeContext:
        """A task from the committed offsets on. Polls during which the plan makes no progress do not count."""
        task, context = SparkTableSourceTask(), FakeContext(self.offsets)
        task.context = context
        try:
            task.start({**self.config, "table.share": share, **more})
            while polls > 0:
                answer = task.poll()
                polls -= answer is None or len(answer) > 0
                polled = answer or []
                assert not isinstance(polled, RecordBatch)
                for record in polled:
                    assert isinstance(record, SourceRecord)
                    assert record.source_partition is not None
                    self.offsets.put(record.source_partition, record.source_offset)
                    if not isinstance(record, OffsetRecord):
                        assert isinstance(record.value, Struct)
                        self.rows.append(record.value)
        finally:
            task.stop()
        return context

    def read(self) -> list[int]:
        """All rows, by lives of one and of two polls in turns. Returns the column `n`, sorted."""
        for number in range(10_000):
            if self.live(1 + number % 2).waits:
                return sorted(int(str(row["n"])) for row in self.rows)
        raise AssertionError("no end")
