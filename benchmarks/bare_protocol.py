"""For comparison: a bare loop on Kafka's own protocol with transactions v2 (KIP-890), that does nothing else.

What the interpreter can do at best: the kernel's encoder of record batches, a socket, one broker, one partition. No
retries beyond the markers of the last transaction, no metadata, no offsets: a measure, not a producer.

python -m benchmarks.bare_protocol BOOTSTRAP TOPIC FILE BOUNDARY
"""

import socket
import struct
import sys
import time
from itertools import islice
from typing import TypeVar

from ringfence.fencing.transactions.messages import (
    NO_TOPIC_ID,
    EndTransaction,
    IdentityResponse,
    InitProducerId,
    Produce,
    ProduceResponse,
    Request,
    Response,
)
from ringfence.fencing.transactions.record_batches import encode
from ringfence.fencing.transactions.wire import NO_TAGS, Reader, classic_string

BATCH, BATCHES = 2000, 4
"""Lines that are read at a time, and how many such go in one request where transactions are long."""
IN_FLIGHT = 5
CONCURRENT_TRANSACTIONS = 51
_HEAD = struct.Struct(">ihhi")
_R = TypeVar("_R", bound=Response)


class Wire:
    """One connection, on which answers come in order."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
        self._answers = self._socket.makefile("rb")
        self._name = classic_string("bare") + NO_TAGS

    def send(self, request: Request, version: int) -> None:
        body = [self._name, *request.encode(version)]
        self._socket.sendall(b"".join((_HEAD.pack(8 + sum(map(len, body)), request.api, version, 0), *body)))

    def take(self, request: Request, version: int, kind: type[_R]) -> _R:
        (size,) = struct.unpack(">i", self._answers.read(4))
        answer = request.decode(version, Reader(self._answers.read(size)[5:]))
        assert isinstance(answer, kind)
        return answer

    def ask(self, request: Request, version: int, kind: type[_R]) -> _R:
        self.send(request, version)
        return self.take(request, version, kind)


class Transactions:
    """One after another, in partition 0 of one topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._wire = Wire(bootstrap)
        self._topic = topic
        self._id = f"bare-{topic}"
        self._on_their_way = 0
        self._sequence = 0
        while True:
            identity = self._wire.ask(InitProducerId(self._id, 60_000), 5, IdentityResponse)
            if not identity.error:
                break
            time.sleep(0.1)  # the coordinator is still being made
        self._producer_id, self._epoch = identity.producer_id, identity.epoch

    def write(self, values: list[bytes]) -> None:
        """The first batch is alone: it begins the transaction."""
        batch = encode(values, int(time.time() * 1000))
        head = batch.head(self._producer_id, self._epoch, self._sequence)
        place = self._topic, 0
        request = Produce(self._id, 30_000, {place: (head, batch.data)}, True, {self._topic: NO_TOPIC_ID})
        while True:
            self._wire.send(request, 12)
            self._on_their_way += 1
            if self._sequence and self._on_their_way < IN_FLIGHT:
                break
            error = self._take(request)
            if error != CONCURRENT_TRANSACTIONS:
                break
        self._sequence += len(values)
        self._last = request

    def _take(self, request: Produce) -> int:
        self._on_their_way -= 1
        (answer,) = self._wire.take(request, 12, ProduceResponse).by_place.values()
        assert answer.error in (0, CONCURRENT_TRANSACTIONS), answer
        return answer.error

    def commit(self) -> None:
        if not self._sequence:
            return  # nothing was written since the last one, and the coordinator would refuse it
        while self._on_their_way:
            assert not self._take(self._last)
        end = EndTransaction(self._id, self._producer_id, self._epoch, True, True)
        identity = self._wire.ask(end, 5, IdentityResponse)
        assert not identity.error, identity
        self._producer_id, self._epoch, self._sequence = identity.producer_id, identity.epoch, 0


def main(bootstrap: str, topic: str, path: str, boundary: str) -> None:
    transactions = Transactions(bootstrap, topic)
    interval = boundary == "interval"
    size = BATCH * BATCHES if interval else BATCH
    with open(path, "rb") as file:
        lines = (line[:-1] for line in file)
        began = time.monotonic()
        while batch := list(islice(lines, size)):
            transactions.write(batch)
            if not interval or time.monotonic() - began >= 1.0:
                transactions.commit()
                began = time.monotonic()
        transactions.commit()


if __name__ == "__main__":
    main(*sys.argv[1:5])
