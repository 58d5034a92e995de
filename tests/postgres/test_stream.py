"""PostgresSource on a real server, under the real kernel: every change once, in order, source transactions whole."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres import versions
from tests.postgres.stand import Stand
from tests.support.broker import Broker
from tests.support.postgres import LOGICAL, Postgres, new_postgres
from tests.support.waiting import eventually


def await_progress(stand: Stand) -> None:
    before = stand.offset()
    eventually(lambda: stand.offset() != before, 60, stand.log, pause=0.1)


def run_with_kills(stand: Stand, seed: int, kills: int, server: Postgres | None = None) -> list[tuple[object, ...]]:
    """The workload under SIGKILLs, and what is wrong in the end. server: it is killed or restarted in turns, too."""
    choice = random.Random(seed)
    versions.create(stand)
    stand.start()
    eventually(lambda: stand.offset() is not None, 60, stand.log, pause=0.2)
    workload = versions.Workload(stand, seed)
    try:
        for number in range(kills):
            await_progress(stand)
            time.sleep(choice.uniform(0.0, 0.5))  # not a wait for anything: where the kill strikes is left to chance
            if server is not None and number % 2 == 0:
                (server.kill if number % 4 == 0 else server.stop)()
                server.start()
            else:
                stand.kill()
                stand.start()
    finally:
        workload.end()
    stand.await_position(versions.write_last(stand))
    stand.end()
    return versions.find_wrong(stand.read(versions.TABLE), versions.rows_of(stand), preloaded=True)


def test_every_version_once_and_transactions_whole_under_sigkill(stand: Callable[..., Stand]) -> None:
    made = stand()
    assert run_with_kills(made, seed=1, kills=2) == []
    assert len(made.read(versions.TABLE)) > 200


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_version_once_over_restarts_of_the_server(
    broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """SIGQUIT and SIGINT to the server, SIGKILLs of the task, eight times; the task goes on by itself."""
    with new_postgres(LOGICAL) as server:
        made = Stand(server, broker.bootstrap, unique("pg"), tmp_path)
        try:
            assert run_with_kills(made, seed=3, kills=8, server=server) == []
            assert len(made.read(versions.TABLE)) > 500
        finally:
            made.close()
