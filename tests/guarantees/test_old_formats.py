"""Records in the message formats of Kafka before 0.11, which no broker writes any more, but disks may still hold."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.connectors.api.fetching import NotFetchable
from ringfence.fencing.clock import Deadline
from ringfence.fencing.fetching.log_reader import LogReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.guarantees.batch_copies import copied, reader_of, send
from tests.guarantees.copies import START, committed, copy_settings
from tests.guarantees.stage import Stage
from tests.support.broker import running_kafka
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough]


def message(offset: int, magic: int, key: bytes, value: bytes) -> bytes:
    """A message of format 0 or 1, as it stands in a segment."""
    time = struct.pack(">q", START + offset) if magic else b""
    covered = struct.pack(">bb", magic, 0) + time
    covered += b"".join(struct.pack(">i", len(each)) + each for each in (key, value))
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


def _extend(records: list[LogRecord], log: LogReader) -> list[LogRecord]:
    records += log.poll(0.1, 1000)
    return records


@pytest.mark.parametrize("magic", [0, 1])
def test_a_copy_of_a_topic_that_begins_with_old_messages(
    magic: int, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """A segment is put in place while the broker is down. Newer records follow in the present format."""
    topic = unique("old")
    with running_kafka(tmp_path) as kafka:
        connection = Connection(kafka.bootstrap)
        create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
        kafka.stop()
        (folder,) = (tmp_path / "kafka").rglob(f"{topic}-0")
        segment = b"".join(message(offset, magic, b"k%d" % offset, b"v%d" % offset) for offset in range(100))
        (folder / f"{0:020}.log").write_bytes(segment)
        for index in folder.glob(f"{0:020}.*index"):
            index.unlink()
        # Without this file, the broker looks at what is in the segment.
        (tmp_path / "kafka" / "logs" / ".kafka_cleanshutdown").unlink(missing_ok=True)
        kafka.start()
        send(kafka.bootstrap, topic, range(101, 201))
        reader = reader_of(kafka.bootstrap)
        reader.add({(topic, 0): 0})
        with pytest.raises(NotFetchable, match=r"before 0\.11"):
            reader.poll(60)
        reader.close()
        log = LogReader(connection, topic, {0: 0})
        records: list[LogRecord] = []
        eventually(lambda: len(_extend(records, log)) == 200)
        log.close()
        assert [each.value for each in records[:100]] == [b"v%d" % offset for offset in range(100)]
        assert log.positions == {0: records[-1].offset + 1}
        stage = Stage(connection, unique("stage"))
        try:
            copied(stage, copy_settings(stage, topic), 200)
            there, here = committed(kafka.bootstrap, topic), committed(kafka.bootstrap, f"here.{topic}")
        finally:
            stage.close()
        assert len(there) == len(here) == 200
        # Those of format 0 have no time, and get that of writing.
        assert sorted(each[: 4 + magic] for each in here) == sorted(each[: 4 + magic] for each in there)
