"""An incremental snapshot under the real kernel, killed while writers change what it reads."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ringfence.connectors.api import Signal
from ringfence.connectors.builtin.postgres.offsets import IncrementalState, incremental_partition, state_of
from ringfence.connectors.sdk.snapshot_signals import EXECUTE
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import read_offsets
from ringfence.fencing.topics.signals import SignalsRecord
from tests.postgres import versions
from tests.postgres.stand import Stand
from tests.support.waiting import eventually

Make = Callable[..., Stand]


def state(stand: Stand) -> IncrementalState:
    """What is committed."""
    found = read_offsets(
        stand.stage.connection, stand.stage.topics.offsets, ConnectorName("numbers"), Deadline.after(60)
    )
    return state_of(found.offset(incremental_partition(stand.prefix)))


def run_with_kills(stand: Stand, seed: int, kills: int, *, by_api: bool = False) -> tuple[list[tuple[Any, ...]], int]:
    """What is wrong in the end, and how many rows were read."""
    choice = random.Random(seed)
    versions.create(stand)
    with stand.connect() as connection:
        connection.execute("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
    stand.start()
    eventually(lambda: stand.offset() is not None, 60, stand.log)
    workload = versions.Workload(stand, seed)
    try:
        data = {"data-collections": [versions.TABLE]}
        if by_api:  # as the leader writes it
            stand.stage.write(SignalsRecord(ConnectorName("numbers"), [Signal(1, EXECUTE, data)]))
        else:
            with stand.connect() as connection:
                connection.execute("INSERT INTO signals VALUES ('1', %s, %s)", [EXECUTE, json.dumps(data)])
        for _ in range(kills):
            before = state(stand).total
            eventually(lambda before=before: state(stand).total > before, 60, stand.log, pause=0.05)  # type: ignore[misc]
            time.sleep(choice.uniform(0.0, 0.1))  # where the kill strikes is left to chance
            stand.kill()
            stand.start()
        eventually(lambda: not state(stand).queue and state(stand).total > 0, 90, stand.log, pause=0.2)
    finally:
        workload.end()
    stand.await_position(versions.write_last(stand))
    stand.end()
    records = stand.read(versions.TABLE)
    read = Counter(one.key["id"] for one in records if one.value is not None and one.value["op"] == "r")
    wrong: list[tuple[Any, ...]] = [("read twice", key) for key, count in read.items() if count > 1]
    return [*wrong, *versions.find_wrong(records, versions.rows_of(stand), preloaded=True)], len(read)


SETTINGS = {"signal_data_collection": "public.signals", "table_include_list": "public.accounts"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_no_row_is_read_twice_or_goes_back_in_time_under_sigkill(stand: Make, seed: int) -> None:
    wrong, rows = run_with_kills(
        stand(**SETTINGS, incremental_snapshot_chunk_size="100"), seed, kills=4, by_api=seed == 1
    )
    assert wrong == []
    assert rows > 2000


@pytest.mark.slow
def test_the_same_without_the_window_is_wrong(stand: Make) -> None:
    made = stand(**SETTINGS, incremental_snapshot_chunk_size="500")
    made.hooks = ["windowless"]
    assert run_with_kills(made, 1, kills=1)[0] != []
