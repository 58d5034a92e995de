"""What BatchPacker.java encodes, as kafka-python reads it."""

import base64
import json
import random
import struct
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest
from kafka.partitioner.default import murmur2
from kafka.record.default_records import DefaultRecordBatch

from ringfence.connectors.api.records import EncodedBatch, EncodedBatches
from ringfence.connectors.java.channel import BatchFrame, decode_encoded
from ringfence.fencing.transactions.record_batches import RecordBatch
from ringfence.local import java_host
from ringfence.local.cache import cache_root
from ringfence.local.jars import KAFKA_CONNECT, resolve
from ringfence.local.java import find_java
from ringfence.local.java_connectors import build_host

_DRIVER = Path(__file__).parent / "plugin" / "PackRecords.java"
MOST_BYTES: Final = 2000
PARTITIONS: Final = 7
Record = dict[str, Any]
Read = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


def pack(folder: Path, rounds: list[list[Record]]) -> list[BatchFrame]:
    """Two rounds through one packer."""
    jars = f"{resolve('kafka-connect', KAFKA_CONNECT)}/*:{build_host() / java_host.JAR}"
    command = [*java_host.compiler(cache_root()), "--release", "17", "-d", str(folder), "-cp", jars, str(_DRIVER)]
    subprocess.run(command, check=True)
    java = [str(find_java()), "-Xmx64m", "-cp", f"{jars}:{folder}", "io.ringfence.connect.PackRecords"]
    text = "\n\n".join("\n".join(map(json.dumps, each)) for each in rounds)
    out = subprocess.run(
        [*java, str(MOST_BYTES), str(PARTITIONS)], input=text.encode(), check=True, capture_output=True
    )
    frames, at = [], 0
    while at < len(out.stdout):
        (size,) = struct.unpack_from(">i", out.stdout, at)
        frames.append(decode_encoded(out.stdout[at + 4 : at + 4 + size]))
        at += 4 + size
    return frames


def generate(seed: int) -> list[Record]:
    chance = random.Random(seed)

    def blob(most: int) -> str | None:
        return chance.choice([None, base64.b64encode(chance.randbytes(chance.randrange(most))).decode()])

    def record() -> Record:
        headers = [(chance.choice(["", "h", "ü"]), blob(5)) for _ in range(chance.choice([0, 0, 0, 1, 3]))]
        at = chance.choice([None, -5, 0, 1, 1_700_000_000_000, 1_600_000_000_000, 2**42])
        partition = chance.choice([None, None, 0, 6])
        most = 5000 if chance.random() < 0.02 else 150
        topic = chance.choice(["one", "two", "drei-ü"])
        return {
            "topic": topic,
            "partition": partition,
            "at": at,
            "key": blob(9),
            "value": blob(most),
            "headers": headers,
        }

    return [record() for _ in range(2000)]


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def partition_of(record: Record) -> int:
    if record["partition"] is not None:
        return int(record["partition"])
    key = plain(record["key"])
    return -1 if key is None else int((murmur2(key) & 0x7FFFFFFF) % PARTITIONS)


def read(batch: EncodedBatch) -> list[Read]:
    whole = DefaultRecordBatch(RecordBatch.of(batch).head(5, 6, 7) + bytes(batch.data))
    assert whole.validate_crc()
    records = list(whole)
    assert len(records) == batch.records
    assert batch.size == sum(len(each.value or b"") for each in records)
    assert batch.first_ms == records[0].timestamp
    assert batch.newest_ms == max(each.timestamp for each in records)
    return [(each.key, each.value, each.timestamp, list(each.headers)) for each in records]


@pytest.mark.thorough
def test_records_come_back_in_order_in_batches_that_are_small_enough(tmp_path: Path) -> None:
    rounds = [generate(1), generate(2)]
    before = int(time.time() * 1000)
    frames = pack(tmp_path, rounds)
    after = int(time.time() * 1000)
    assert [frame.number for frame in frames] == [0, 1]
    for frame, records in zip(frames, rounds, strict=True):
        assert isinstance(frame.batch, EncodedBatches)
        assert (frame.commits, frame.aborts, len(frame.batch)) == (True, False, len(records))
        assert frame.batch.offsets == [({"file": "f"}, {"position": frame.number})]
        wanted: dict[tuple[str, int], list[Record]] = defaultdict(list)
        for record in records:
            wanted[record["topic"], partition_of(record)].append(record)
        found: dict[tuple[str, int], list[Read]] = defaultdict(list)
        for batch in frame.batch.batches:
            assert len(batch.data) <= MOST_BYTES or batch.records == 1
            found[batch.topic, batch.partition] += read(batch)
        assert found.keys() == wanted.keys()
        for place, originals in wanted.items():
            for (key, value, at, headers), original in zip(found[place], originals, strict=True):
                assert (key, value) == (plain(original["key"]), plain(original["value"]))
                assert headers == [(name, plain(text)) for name, text in original["headers"]]
                if (original["at"] or 0) > 0:
                    assert at == original["at"]
                else:
                    assert before <= at <= after


def test_a_truncated_frame_is_refused(tmp_path: Path) -> None:
    whole = struct.pack("<QIII", 1, 0, 0, 0) + struct.pack("<i", 2) + b"[]" + struct.pack("<i", 0)
    assert not decode_encoded(whole).batch
    for size in range(len(whole)):
        with pytest.raises((ValueError, struct.error)):
            decode_encoded(whole[:size])
    with pytest.raises(ValueError, match="end at"):
        decode_encoded(whole + b"x")
