"""For comparison: a bare loop around librdkafka's `produce`, in transactions, that does nothing else.

python -m benchmarks.plain BOOTSTRAP TOPIC FILE BOUNDARY
"""

import sys
import time
from itertools import islice

from confluent_kafka import Producer

BATCH = 2000


def main(bootstrap: str, topic: str, path: str, boundary: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"plain-{topic}",
            "linger.ms": 5,
            "batch.size": 256 * 1024,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 32 * 1024,
            "retry.backoff.ms": 5,
        }
    )
    producer.poll(0.03)
    producer.init_transactions(30)
    every = 1.0 if boundary == "interval" else 0.0
    with open(path, "rb") as file:
        lines = (line[:-1] for line in file)
        producer.begin_transaction()
        began = time.monotonic()
        while batch := list(islice(lines, BATCH)):
            for value in batch:
                while True:
                    try:
                        producer.produce(topic, value)
                        break
                    except BufferError:
                        producer.poll(0.01)
            if time.monotonic() - began >= every:
                producer.commit_transaction(60)
                producer.begin_transaction()
                began = time.monotonic()
        producer.commit_transaction(60)


if __name__ == "__main__":
    main(*sys.argv[1:5])
