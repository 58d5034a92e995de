"""Fixtures for all tests: a real broker, a real Valkey, unique names."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from ringfence.connectors import egress, worker_limits
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port
from ringfence.local.spark_classes import use_archive
from ringfence.local.valkey import EmbeddedValkey
from tests.e2e.browser import chromium
from tests.support.broker import Broker, new_kafka
from tests.support.hanging import trusting_kafka
from tests.support.names import unique as unique_name
from tests.support.parallel import ByFile, platform_first

# Else every process of thousands would compile our code again, and each one of pytest rewrite all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Not before the imports: it is read when it is first used. Every process that a test starts has it, or one of its own.
os.environ.setdefault("RINGFENCE_ENCRYPTION_KEYS", "dGVzdHMgb25seSwgbm90IGEgc2VjcmV0LCAzMiBieXQ")

# A machine at work is slow now and then, which says nothing about the code.
hypothesis.settings.register_profile("ringfence", deadline=None)
hypothesis.settings.load_profile("ringfence")

use_archive()  # for the Spark drivers of the tests themselves

BROKER_FIXTURES = {"broker", "own_broker", "trusting"}
pytest_plugins = ["tests.support.alone", "tests.support.crashes", "tests.support.leftovers", "tests.support.progress"]
SHARED = pytest.StashKey[str]()
BOOTSTRAP = "RINGFENCE_TEST_BOOTSTRAP"
# Plugin code that a test runs by itself may read the test's files; a platform that a test starts does not see this.
os.environ[worker_limits.ENVIRONMENT] = json.dumps(
    {worker_limits.FILE_ROOTS: "/", egress.EGRESS_ALLOW: "public,private,loopback"}
)


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        platform_first(items, config.rootpath)
    for item in items:
        if isinstance(item, pytest.Function) and BROKER_FIXTURES.intersection(item.fixturenames):
            item.add_marker("broker")


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
    kafka = new_kafka(tmp_path_factory.mktemp("broker"))
    kafka.start()
    try:
        yield Broker(kafka.bootstrap)
    finally:
        kafka.kill()  # nobody reads its data again


@pytest.fixture(scope="session")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """One broker for the whole run that lets transactions hang: `support.hanging`. Who stops it starts it again."""
    with trusting_kafka(tmp_path_factory.mktemp("trusting")) as kafka:
        yield kafka


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker for one test, which may `stop`, `kill` and `start` it; costs about five seconds."""
    kafka = new_kafka(tmp_path)
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """One real Valkey for the whole run: `.url`, and `.port`."""
    root = tmp_path_factory.mktemp("valkey")
    server = EmbeddedValkey(root / "data", free_port(), root / "valkey.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """`unique("topic")` gives a name that no other test uses."""
    return unique_name
