"""Fixtures for all tests: real brokers. Left out of a run of pure tests (`support.pure`)."""

import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from xdist.workermanage import WorkerController

from ringfence.local.kafka import EmbeddedKafka
from tests.e2e.browser import chromium
from tests.support.broker import Broker, new_kafka, running_kafka
from tests.support.hanging import trusting_kafka

SHARED = pytest.StashKey[str]()
BOOTSTRAP = "RINGFENCE_TEST_BOOTSTRAP"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Before each process of several starts: all of them share one broker."""
    stash = node.config.stash
    if SHARED not in stash:
        stash[SHARED] = os.environ.get(BOOTSTRAP) or _shared_broker(node.config)
    node.workerinput[BOOTSTRAP] = stash[SHARED]


def _shared_broker(config: pytest.Config) -> str:
    """Runs until the run is over."""
    root = tempfile.TemporaryDirectory(prefix="ringfence-test-broker-")
    config.add_cleanup(root.cleanup)
    kafka = new_kafka(Path(root.name))
    config.add_cleanup(kafka.kill)
    kafka.start()
    return kafka.bootstrap


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """Behind everything else that is told at the end. Here, as this file is loaded by the process that tells it."""
    yield
    if chromium.find() is None:
        terminalreporter.write_line(
            f"NO BROWSER: the tests of the pages were skipped. To run them: {chromium.HOW_TO_INSTALL}", yellow=True
        )


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One real broker for the whole run. RINGFENCE_TEST_BOOTSTRAP=host:port uses a running one instead."""
    bootstrap = getattr(request.config, "workerinput", os.environ).get(BOOTSTRAP)
    if bootstrap:
        yield Broker(bootstrap)
        return
    with running_kafka(tmp_path_factory.mktemp("broker")) as kafka:
        yield Broker(kafka.bootstrap)


@pytest.fixture(scope="session")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """One broker for the whole run that lets transactions hang: `support.hanging`. Who stops it starts it again."""
    with trusting_kafka(tmp_path_factory.mktemp("trusting")) as kafka:
        yield kafka


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker for one test, which may `stop`, `kill` and `start` it; costs about five seconds."""
    with running_kafka(tmp_path) as kafka:
        yield kafka
