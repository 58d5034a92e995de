"""A row with a value that no record can hold: refused alone, with its table, key, column and reason, by either path."""

import json
from collections.abc import Callable

import pytest

from ringfence.connectors.api import SerializedRecords, SourceRecord, Struct, UnreadableRecord
from tests.postgres.local import Database, Run, config_of
from tests.postgres.stand import Stand, write_position

FAIL = {
    "unsupported.value.handling.mode": "fail",
    **dict.fromkeys(["key.converter", "value.converter"], "org.apache.kafka.connect.json.JsonConverter"),
}
TABLE = "CREATE TABLE t (id integer PRIMARY KEY, n numeric(10, 2), grid integer[], secret text)"
ROWS = (
    "INSERT INTO t VALUES (1, 1.5, '{1}', 'a'), (2, 'NaN', '{1}', 'b'), (3, 2.5, NULL, 'c'), "
    "(4, 1, '{{1,2},{3,4}}', 'd'), (5, 3.5, '[0:1]={1,2}', 'e')"
)


@pytest.fixture(params=["by the converters", "by the task"])
def start(database: Database, request: pytest.FixtureRequest) -> Callable[..., Run]:
    """Starts a task that makes the bytes itself, or not."""

    def make(**settings: str) -> Run:
        more = {name.replace("_", "."): value for name, value in settings.items()}
        config = {**config_of(database.server, database.name), **FAIL, **more}
        database.runs.append(Run(config, serialized=request.param == "by the task"))
        return database.runs[-1].start()

    return make


def keys(records: list[SourceRecord]) -> list[object]:
    """The keys of the records of `t`, and the errors of rows that were refused."""
    found: list[object] = []
    for record in records:
        if record.topic != "local.public.t":
            continue
        if isinstance(record, SerializedRecords):
            found += [json.loads(key or b"null")["payload"]["id"] for key in record.keys]
        elif isinstance(record, UnreadableRecord):
            found.append(str(record.error))
        else:
            assert isinstance(record.key, Struct)
            found.append(record.key["id"])
    return found


NAN = (
    "The table public.t, row id=2, column n: a decimal cannot be NaN or infinite (a value like NaN). Set "
    "unsupported.value.handling.mode to null or text, or correct the value."
)
GRID = (
    "The table public.t, row id=4, column grid: the array has more dimensions than the 1 that its column is declared "
    "with (a value like {{9,9},{9,9}}). Set unsupported.value.handling.mode to null or text, or correct the value."
)


def test_the_stream_goes_on_behind_a_refused_row(database: Database, start: Callable[..., Run]) -> None:
    database.execute(TABLE)
    run = start(column_exclude_list="public.t.secret")
    database.execute(ROWS, "UPDATE t SET n = 2 WHERE id = 2", "DELETE FROM t WHERE id = 4")
    database.await_all(run)
    assert keys(run.records) == [1, NAN, 3, GRID, 5, 2, 4, 4]
    refused = [record for record in run.records if isinstance(record, UnreadableRecord)]
    assert [record.value for record in refused] == [
        '{"id":"2","n":"NaN","grid":"{1}"}',
        '{"id":"4","n":"1.00","grid":"{{1,2},{3,4}}"}',
    ]
    assert refused[0].key == '{"id":"2"}'


def test_a_restart_within_the_transaction_goes_on_behind_a_refused_row(
    database: Database, start: Callable[..., Run]
) -> None:
    database.execute(TABLE)
    run = start(max_batch_size="2", source_transactions="split")
    copies = [f"{database.name}_{number}" for number in range(3)]
    for copy in copies:
        database.execute(f"SELECT pg_copy_logical_replication_slot('{database.name}', '{copy}')")
    database.execute(ROWS)
    database.await_all(run)
    everything = keys(run.records)
    assert everything == [1, NAN, 3, GRID, 5]
    within = [commit for commit in run.commits if keys(commit)][:-1]
    assert len(within) > 1
    run.stop()
    done = 0
    for commit, copy in zip(within, copies, strict=False):
        done += len(keys(commit))
        again = Run({**run.config, "slot.name": copy}, commit[-1].source_offset).start()
        database.runs.append(again)
        database.await_all(again)
        assert keys(again.records) == everything[done:]


def test_snapshots_go_on_behind_a_refused_row(database: Database, start: Callable[..., Run]) -> None:
    database.execute(
        TABLE, ROWS, "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)", "CREATE TABLE bare (n numeric)"
    )
    database.execute("INSERT INTO bare VALUES (1), ('NaN')", "ALTER TABLE bare REPLICA IDENTITY FULL")
    run = start(snapshot_mode="initial", signal_data_collection="public.signals")
    run.poll_until(lambda: run.offset is not None and len(keys(run.records)) == 5)
    assert keys(run.records) == [1, NAN, 3, GRID, 5]
    run.poll_until(lambda: any(isinstance(r, UnreadableRecord) and r.topic.endswith(".bare") for r in run.records))
    before = len(run.records)
    database.execute("INSERT INTO signals VALUES ('1', 'execute-snapshot', '{\"data-collections\": [\"public.t\"]}')")
    run.poll_until(lambda: len(keys(run.records[before:])) == 5)
    assert keys(run.records[before:]) == [1, NAN, 3, GRID, 5]


def test_a_refused_row_is_skipped_once_with_its_letter_beside_the_others(stand: Callable[..., Stand]) -> None:
    """The whole path: errors.tolerance=all, in the broker."""
    one = stand(
        unsupported_value_handling_mode="fail",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="letters",
        errors_deadletterqueue_topic_replication_factor="1",
        errors_deadletterqueue_context_headers_enable="true",
        snapshot_mode="initial",
    )
    with one.connect() as connection:
        connection.execute(f"{TABLE}; {ROWS}".encode())
        one.create_topics("public.t")
        one.start()
        one.await_position(1)
        connection.execute(b"INSERT INTO t VALUES (6, 'NaN', NULL, NULL), (7, 7, NULL, NULL)")
        one.await_position(write_position(connection))
    one.end()
    assert [seen.key["id"] for seen in one.read("public.t")] == [1, 3, 5, 7]
    letters = one._read("letters")
    assert [letter.key["id"] for letter in letters] == ["2", "4", "6"]
    assert any(NAN in value.decode() for _, value in letters[0].headers if value)


def test_without_tolerance_the_task_fails_with_the_place(stand: Callable[..., Stand]) -> None:
    one = stand(unsupported_value_handling_mode="fail", snapshot_mode="initial")
    with one.connect() as connection:
        connection.execute(f"{TABLE}; {ROWS}".encode())
    one.create_topics("public.t")
    one.start()
    outcome = json.dumps(one.outcome())
    assert NAN in outcome
    assert [seen.key["id"] for seen in one.read("public.t")] == []


@pytest.mark.parametrize(("mode", "n", "grid"), [("null", None, None), ("text", "NaN", "{{1,2},{3,4}}")])
def test_the_setting_chooses_what_becomes_of_such_values(
    database: Database, start: Callable[..., Run], mode: str, n: object, grid: object
) -> None:
    database.execute(TABLE, "ALTER TABLE t ALTER n SET NOT NULL, ALTER grid SET NOT NULL")
    run = start(unsupported_value_handling_mode=mode)
    database.execute("INSERT INTO t VALUES (1, 'NaN', '{{1,2},{3,4}}', 'a')")
    database.await_all(run)
    (value,) = [value for topic, _, value, _ in run.as_written() if topic == "PREFIX.public.t"]
    after = value["payload"]["after"]
    assert (after["n"], after["grid"]) == (n, grid)


def test_an_array_with_fewer_dimensions_than_declared_is_the_only_one_of_the_outer_array(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY, grid integer[][], boxes box[])")
    run = database.run()
    database.execute(
        "INSERT INTO t VALUES (1, '{1,2}', '{(3,4),(1,2);(1,1),(0,0)}'), (2, '{}', '{}'), (3, '{{1},{2}}', NULL)"
    )
    database.await_all(run)
    rows = [
        record.value["after"]
        for record in run.records
        if isinstance(record.value, Struct) and record.topic.endswith(".t")
    ]
    assert all(isinstance(row, Struct) for row in rows)
    grids = [row["grid"] for row in rows if isinstance(row, Struct)]
    assert grids == [[[1, 2]], [], [[1], [2]]]
    assert isinstance(rows[0], Struct)
    boxes = rows[0]["boxes"]
    assert isinstance(boxes, list)
    assert len(boxes) == 2
