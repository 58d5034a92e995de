"""The status topic is followed by one thread and read to its end by others, which must not wait for the first."""

import threading
import time
from collections.abc import Callable

from ringfence.engine.status_log import StatusLog
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.support.broker import Broker


def test_whoever_reads_to_the_end_has_its_turn_beside_the_thread_that_follows(
    broker: Broker, unique: Callable[[str], str]
) -> None:
    """A leader reads it before it leads: it waited for a minute, now and then, and so did all connectors."""
    connection, topic = Connection(broker.bootstrap), unique("status")
    create_topics(connection, [TopicSpec(topic)], Deadline.after(60))
    log, stop = StatusLog(connection, topic), threading.Event()
    follower = threading.Thread(target=log.run, args=(stop,))
    follower.start()
    try:
        log.refresh(Deadline.after(60))
        began = time.monotonic()
        for _ in range(20):
            log.refresh(Deadline.after(60))
        assert time.monotonic() - began < 20
    finally:
        stop.set()
        follower.join(60)
        log.close()
