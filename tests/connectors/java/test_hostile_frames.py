"""Whatever a Java process writes to its connection, whoever waits for a frame is told the end."""

import json
import os
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ringfence.connectors.java.channel import BATCH, ENCODED, HEAD, JSON, JavaChannel, JavaEnded


class PipeChannel(JavaChannel):
    """A connection whose other end is the test."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        super().__init__(os.fdopen(reading, "rb"), open(os.devnull, "wb"), lambda _connector: None)  # noqa: SIM115
        self._reading.start()

    @property
    def pid(self) -> int:
        return 0

    def _kill(self, why: str) -> None:
        pass

    def _wait_for_end(self) -> str:
        return "It has ended."

    def close(self, seconds: float) -> None:
        with suppress(OSError):
            os.close(self.writing)
        self._reading.join(seconds)


@pytest.fixture
def channel() -> Iterator[PipeChannel]:
    channel = PipeChannel()
    yield channel
    channel.close(10)


def frame(kind: int, payload: bytes) -> bytes:
    return HEAD.pack(len(payload) + 1, kind) + payload


DEEP = b"[" * 100_000
FRAMES = {
    "no-json": frame(JSON, b"{"),
    "json-that-is-nested": frame(JSON, DEEP),
    "json-of-another-kind": frame(JSON, b"[1]"),
    "no-event": frame(JSON, json.dumps({"what": 1}).encode()),
    "event-without-its-field": frame(JSON, json.dumps({"event": "alive"}).encode()),
    "empty-batch": frame(BATCH, b""),
    "batch-of-billions": frame(BATCH, struct.pack("<QIIIIi", 1, 2**32 - 1, 0, 0, 0, 2**31 - 1)),
    "topic-that-is-not-there": frame(
        BATCH, struct.pack("<QIIIIi", 1, 1, 64, 0, 0, 0) + struct.pack("<i", 2) + b"[]" + struct.pack("<i", 7)
    ),
    "offsets-that-are-nested": frame(
        BATCH, struct.pack("<QIIIIi", 1, 1, 0, 0, 0, 0) + struct.pack("<i", len(DEEP)) + DEEP
    ),
    "empty-record-batches": frame(ENCODED, b""),
    "record-batch-that-is-truncated": frame(
        ENCODED, struct.pack("<QIIIi", 1, 0, 0, 0, 2) + b"[]" + struct.pack("<ii", 1, 1) + b"t" + b"\0" * 40
    ),
    "frame-without-a-kind": HEAD.pack(0, JSON),
    "frame-of-gigabytes": HEAD.pack(2**32 - 1, JSON),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_that_cannot_be_read_ends_the_connection(channel: PipeChannel, name: str) -> None:
    os.write(channel.writing, FRAMES[name])
    ended = channel.frames.get(timeout=20)
    assert isinstance(ended, JavaEnded)
    assert "sent a frame that cannot be read" in str(ended)
    with pytest.raises(JavaEnded):
        channel.call("start", seconds=20)
