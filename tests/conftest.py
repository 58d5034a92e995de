"""Fixtures for all tests: a real Valkey, unique names. Brokers: `support.servers`."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from ringfence.connectors.sdk import egress, worker_limits
from ringfence.local.class_archives import use_archive
from ringfence.local.ports import free_port
from ringfence.local.valkey import EmbeddedValkey
from tests.support.examples import examples
from tests.support.names import unique as unique_name
from tests.support.parallel import ByFile, platform_first

if TYPE_CHECKING:
    from ringfence.engine.plugins import PluginHost
    from tests.support.plugin_hosts import Heard

# Else every process of thousands would compile our code again, and each one of pytest rewrite all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Not before the imports: it is read when it is first used. Every process that a test starts has it, or one of its own.
os.environ.setdefault("RINGFENCE_ENCRYPTION_KEYS", "dGVzdHMgb25seSwgbm90IGEgc2VjcmV0LCAzMiBieXQ")

# A machine at work is slow now and then, which says nothing about the code.
hypothesis.settings.register_profile("ringfence", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("ringfence")

use_archive()  # for the Spark drivers of the tests themselves

BROKER_FIXTURES = {"broker", "own_broker", "trusting"}
pytest_plugins = [
    "tests.support.alone",
    "tests.support.crashes",
    "tests.support.leftovers",
    "tests.support.progress",
    "tests.support.pure",
    "tests.support.timeline",
    *([] if "RINGFENCE_TESTS_PURE" in os.environ else ["tests.support.servers"]),
]
# Plugin code that a test runs by itself may read the test's files; a platform that a test starts does not see this.
os.environ[worker_limits.ENVIRONMENT] = json.dumps(
    {worker_limits.FILE_ROOTS: "/", egress.EGRESS_ALLOW: "public,private,loopback"}
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        platform_first(items, config.rootpath)
    for item in items:
        if isinstance(item, pytest.Function) and BROKER_FIXTURES.intersection(item.fixturenames):
            item.add_marker("broker")


def _known_loggers() -> dict[str, logging.Logger]:
    return {name: one for name, one in logging.root.manager.loggerDict.items() if isinstance(one, logging.Logger)}


@contextmanager
def _restored_loggers() -> Iterator[None]:
    loggers = _known_loggers()
    before = {name: (one.level, one.disabled, one.propagate) for name, one in loggers.items()}
    root, disabled = logging.root.level, logging.root.manager.disable
    yield
    logging.root.setLevel(root)
    logging.disable(disabled)
    for name, (level, is_disabled, propagates) in before.items():
        one = loggers[name]
        if (one.level, one.disabled, one.propagate) != (level, is_disabled, propagates):
            one.setLevel(level)
            one.disabled, one.propagate = is_disabled, propagates
    for name, one in _known_loggers().items():
        if name not in before and name.partition(".")[0] == "ringfence":  # others are set up by their libraries
            one.setLevel(logging.NOTSET)
            one.disabled, one.propagate = False, True


@pytest.fixture(autouse=True)
def loggers_of_a_test() -> Iterator[None]:
    """What a test changes of loggers ends with it: the next ones of its process look at what is logged."""
    with _restored_loggers():
        yield


@pytest.fixture(scope="module", autouse=True)
def loggers_of_a_module() -> Iterator[None]:
    """What the fixtures of a module change of them ends with the module."""
    with _restored_loggers():
        yield


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


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For processes that have the hostile connector installed beside the built-in ones."""
    folder = tmp_path_factory.mktemp("installed")
    info = folder / "hostile-6.6.6.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 6.6.6\n")
    (info / "entry_points.txt").write_text(
        "[ringfence.connectors]\nHostile = tests.plugins.hostile:HostileConnector\nBroken = tests.plugins.nowhere:X\n"
    )
    return {"PYTHONPATH": f"{folder}:{Path(__file__).parents[1]}"}


@pytest.fixture
def heard() -> "Heard":
    from tests.support.plugin_hosts import Heard

    return Heard()


@pytest.fixture
def host(environment: dict[str, str], heard: "Heard") -> Iterator["PluginHost"]:
    from ringfence.engine.plugins import PluginHost
    from tests.support.plugin_hosts import PATIENCE

    host = PluginHost(
        heard.reconfigured.append,
        lambda name, error: heard.failed.append((name, error)),
        environment=environment,
        call_seconds=PATIENCE,
    )
    yield host
    host.close()


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A key file with one key, in use by this process."""
    from ringfence.commands.keys import write_new
    from ringfence.encryption import KEY_FILE, keyring

    path = tmp_path / "keys"
    write_new(path)
    monkeypatch.setenv(KEY_FILE, str(path))
    keyring.cache_clear()
    yield path
    monkeypatch.undo()
    keyring.cache_clear()
