"""The same requests to a real Kafka Connect 4.3.0 and to Ringfence: every difference is listed, with its reason."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.connect import ConnectWorker
from tests.differential.differences import found, listed, outdated, unlisted
from tests.differential.script import script
from tests.differential.sides import Side
from tests.e2e.up import Up
from tests.support.names import unique

pytestmark = pytest.mark.slow  # a JVM with Kafka Connect beside a platform; what it shows is no guarantee of ours


@pytest.fixture
def connect(platform: Up, tmp_path: Path) -> Iterator[ConnectWorker]:
    """A worker of the real one, on the same broker."""
    worker = ConnectWorker(tmp_path / "connect", platform.bootstrap, login=platform.kafka_login, short_lived=True)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def test_answers_differ_from_kafka_connects_only_as_listed(
    platform: Up, connect: ConnectWorker, tmp_path: Path
) -> None:
    source = tmp_path / "source.txt"
    source.write_text("a\nb\nc\n")
    steps = script(source, unique("differential"))
    theirs, ours = Side(connect.url), Side(platform.rest.url)
    with ThreadPoolExecutor(2) as both:
        for run in [both.submit(theirs.run, steps), both.submit(ours.run, steps)]:
            run.result()
    differences, expected = found(theirs, ours), listed()
    assert len(theirs.answers) > 100
    assert unlisted(differences, expected) == [], "these are not listed in differences.toml"
    assert outdated(differences, expected) == [], "these are listed and do not differ"
