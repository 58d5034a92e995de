"""What one account asks of plugins takes neither the machine's memory nor the places of others."""

import json
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ringfence.connectors.api import ConfigException
from ringfence.connectors.sdk import egress, worker_limits
from ringfence.engine import fair_places
from ringfence.engine.plugins import PluginError, PluginHost, PluginTimeout
from ringfence.engine.plugins.calls import PreviewRecords, ValidateConfig, pairs_of
from ringfence.engine.plugins.errors import OutOfMemory
from ringfence.memory_limit import CALL_MEMORY_LIMIT, DEFAULTS, memory_limit
from tests.support.plugin_hosts import PATIENCE, hostile
from tests.support.waiting import eventually

MIB = 1024 * 1024


@pytest.fixture
def host(environment: dict[str, str], tmp_path: Path) -> Iterator[PluginHost]:
    limits = {worker_limits.FILE_ROOTS: str(tmp_path), egress.EGRESS_ALLOW: "loopback"}
    running = PluginHost(
        environment={**environment, worker_limits.ENVIRONMENT: json.dumps(limits)},
        call_processes=2,
        call_seconds=PATIENCE,
    )
    yield running
    running.close()


def test_a_query_whose_row_would_fill_the_memory_is_refused(host: PluginHost, tmp_path: Path) -> None:
    file = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(file)) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")
        shop.execute("INSERT INTO orders (item) VALUES ('ink')")
        shop.commit()
    config = {
        "name": "c",
        "connector.class": "SqlSource",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "connection.url": f"sqlite:///{file}",
        "topic.prefix": "shop.",
        "query": "select id, hex(zeroblob(150000000)) || hex(zeroblob(150000000)) as item from orders",
    }
    bounds = {"records": 1, "bytes": MIB, "seconds": 20.0}
    with pytest.raises(PluginError, match=r"The query cannot be read: .*too big.*Leave the value out of the query"):
        host.ask(PreviewRecords(config, pairs_of([]), {}, [], bounds), PATIENCE)
    assert host.ask(ValidateConfig("Hostile", hostile()))["error_count"] == 0


def test_a_process_that_took_all_its_memory_is_not_used_again(environment: dict[str, str]) -> None:
    host = PluginHost(environment=environment, call_seconds=PATIENCE, call_memory=256 * MIB)
    try:
        with pytest.raises(OutOfMemory, match=r"validate needed more than 256 MiB \(call\.memory\.limit\)"):
            host.ask(ValidateConfig("Hostile", hostile("eat memory")))
        assert host.ask(ValidateConfig("Hostile", hostile()))["error_count"] == 0
    finally:
        host.close()


class Bombs:
    """A host with limited instances; what failed by itself."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.failed: list[str] = []
        self.host = PluginHost(
            on_failed=lambda name, _error: self.failed.append(name),
            environment=environment,
            call_seconds=PATIENCE,
            instances_memory=256 * MIB,
        )

    def start(self, name: str, config: dict[str, str]) -> None:
        self.host.start_connector(name, {**config, "name": name}, (), PATIENCE)

    def configs(self, name: str) -> int:
        return len(self.host.task_configs(name, 1, None, PATIENCE))


@pytest.fixture
def bombs(environment: dict[str, str]) -> Iterator[Bombs]:
    running = Bombs(environment)
    yield running
    running.host.close()


@pytest.mark.parametrize("mood", ["eat memory in start", "eat memory"])
def test_an_instance_without_measure_is_the_only_one_that_fails(bombs: Bombs, mood: str) -> None:
    """Also for who calls at the same moment."""
    names = [f"honest-{number}" for number in range(3)]
    for name in names:
        bombs.start(name, hostile())

    def explode(number: int) -> None:
        name = f"bomb-{number}"
        bombs.start(name, hostile(mood))
        bombs.configs(name)

    with ThreadPoolExecutor(5) as pool:
        attacks = [pool.submit(explode, number) for number in range(2)]
        for _ in range(3):
            assert [answer.result() for answer in [pool.submit(bombs.configs, name) for name in names]] == [1, 1, 1]
        for attack in attacks:
            with pytest.raises(OutOfMemory, match=r"needed more than 256 MiB \(connectors\.memory\.limit\)"):
                attack.result()
    assert sorted(bombs.host.running_connectors()) == names
    assert [bombs.configs(name) for name in names] == [1, 1, 1]
    assert bombs.failed == []


def test_who_finds_no_memory_need_not_be_who_has_taken_it(bombs: Bombs) -> None:
    """Two calls, each of which has room alone: neither fails, although together they have none."""
    for name in ("one", "other"):
        bombs.start(name, {**hostile(), "needed.bytes": str(150 * MIB)})
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(bombs.configs, ("one", "other"))) == [1, 1]
    assert sorted(bombs.host.running_connectors()) == ["one", "other"]
    assert bombs.failed == []


def test_many_small_instances_have_room(bombs: Bombs) -> None:
    """Each has a thread, whose stack counts as memory: 60 of them are 480 MiB. Ended ones leave none."""
    for number in range(60):
        bombs.start(f"c{number}", hostile())
    assert bombs.configs("c59") == 1
    threads = threads_of(bombs)
    for number in range(60):
        bombs.host.stop_connector(f"c{number}")
    eventually(lambda: threads_of(bombs) <= threads - 60, 30, "their threads have ended")
    bombs.start("last", hostile())
    with pytest.raises(OutOfMemory):
        bombs.start("bomb", hostile("eat memory in start"))
    assert bombs.configs("last") == 1
    assert bombs.failed == []


def threads_of(bombs: Bombs) -> int:
    """Of the process of the instances."""
    child = bombs.host._groups._own.live._child
    assert child is not None
    return len(list(Path(f"/proc/{child.pid}/task").iterdir()))


def test_an_answer_without_end_is_not_read(bombs: Bombs) -> None:
    """It is parsed by the worker itself. Connectors' task configurations have at most half of this."""
    bombs.start("honest", hostile())
    assert bombs.configs("honest") == 1
    with pytest.raises(PluginError):
        bombs.start("flood", hostile("flood"))
    assert bombs.configs("honest") == 1


def test_calls_of_one_account_leave_half_of_the_processes_to_others(host: PluginHost) -> None:
    """Six validations against what never answers."""

    def validate(who: str, mood: str, seconds: float) -> Any:
        token = fair_places.account.set(who)
        try:
            return host.ask(ValidateConfig("Hostile", hostile(mood)), seconds)
        finally:
            fair_places.account.reset(token)

    assert validate("editor-b", "fine", PATIENCE)["error_count"] == 0
    with ThreadPoolExecutor(6) as pool:
        hung = [pool.submit(validate, "editor-a", "hang", 20.0) for _ in range(6)]
        places = host._groups._own._calls._places
        eventually(lambda: len(places._waiting) == 5, 30, "all but one of them wait", pause=0.02)
        began = time.monotonic()
        assert validate("editor-b", "fine", PATIENCE)["error_count"] == 0
        took = time.monotonic() - began
        done = [each for each in hung if each.done()]
        errors = [each.exception(PATIENCE) for each in hung]
    assert took < 15
    assert not done, "none of them had ended before"
    assert all(isinstance(error, PluginTimeout) for error in errors)
    assert sum("1 calls of your account, as many as it may have" in str(error) for error in errors) >= 4


def test_limits_are_on_by_default_and_can_be_lifted() -> None:
    assert [memory_limit({}, name) for name in DEFAULTS] == [2048 * MIB, 512 * MIB, 1024 * MIB]
    assert memory_limit({CALL_MEMORY_LIMIT: "none"}, CALL_MEMORY_LIMIT) is None
    assert memory_limit({CALL_MEMORY_LIMIT: "1g"}, CALL_MEMORY_LIMIT) == 1024 * MIB
    with pytest.raises(ConfigException, match=r"call\.memory\.limit=8m: .* at least 256m"):
        memory_limit({CALL_MEMORY_LIMIT: "8m"}, CALL_MEMORY_LIMIT)
