"""A broker is away: our producers wait for another leader of its partitions, and leave the processors to others."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.support.cluster import REPLICATED, running, three_brokers
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REPORTS = """
    import sys, time
    from ringfence.fencing.kafka.connection import Connection
    from ringfence.fencing.kafka.plain_producers import ReportProducer

    producers = [ReportProducer(Connection(sys.argv[1])) for _ in range(8)]

    def tell(is_delivered):
        print("delivered" if is_delivered else "lost", flush=True)

    while True:
        for producer in producers:
            for key in (b"a", b"b", b"c", b"d", b"e", b"f"):
                producer.send("reports", key, b"", tell)
        time.sleep(0.1)
"""


@contextmanager
def reporting(bootstrap: str, output: Path) -> Iterator[psutil.Process]:
    with output.open("w") as file:
        process = subprocess.Popen([sys.executable, "-c", dedent(REPORTS), bootstrap], stdout=file)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def test_producers_that_wait_for_a_leader_use_hardly_any_processor_time(tmp_path: Path) -> None:
    """What they used without a broker away is measured before. With five requests in flight it was 20 times as much."""
    output = tmp_path / "reports"
    with running(three_brokers(tmp_path, 3, **REPLICATED)) as brokers:
        connection = Connection(",".join(each.bootstrap for each in brokers))
        create_topics(connection, [TopicSpec("reports", 3)], Deadline.after(60))
        with reporting(connection.bootstrap, output) as process:

            def delivered() -> int:
                return output.read_text().count("delivered")

            def cpu_seconds_of_reports() -> float:
                """What the process uses until 1,000 more are delivered."""
                count, before = delivered() + 1000, cpu_seconds(process)
                eventually(lambda: delivered() > count, 90, "reports are delivered")
                return cpu_seconds(process) - before

            for broker in brokers:
                usual = cpu_seconds_of_reports()
                broker.kill()
                assert cpu_seconds_of_reports() < 4 * usual + 1
                broker.launch()
                broker.wait_ready(120)
    assert "lost" not in output.read_text()
