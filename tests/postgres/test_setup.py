"""What helps to set a connector up: what there is to choose from, what updates need, how far behind a task is."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from ringfence.connectors.builtin.postgres import slots
from ringfence.connectors.plugins import PluginRegistry
from ringfence.engine.plugins.validation import validate
from tests.postgres.local import Database, Run, config_of
from tests.support.waiting import eventually

TABLES = (
    "CREATE TABLE orders (id integer, line integer, v text, PRIMARY KEY (id, line))",
    "INSERT INTO orders SELECT g, 1, repeat('x', 100) FROM generate_series(1, 30000) g",
    "ANALYZE orders",
    'CREATE SCHEMA odd; CREATE TABLE odd."a,b $" (v text)',
)


def validated(database: Database, **settings: str) -> tuple[dict[str, Any], Mapping[str, Mapping[str, str]]]:
    config: dict[str, str | None] = {**config_of(database.server, database.name, **settings), "name": "c"}
    config |= {"connector.class": "PostgresSource", "tasks.max": "1", "publication.autocreate.mode": "filtered"}
    found: Any = validate(PluginRegistry.discover(), "PostgresSource", config, exactly_once=True)
    return {entry["value"]["name"]: entry["value"] for entry in found["configs"]}, found.get("choice_notes", {})


def test_the_form_offers_schemas_and_tables_with_sizes_and_keys(database: Database) -> None:
    database.execute(*TABLES)
    values, notes = validated(database)
    tables = notes["table.include.list"]
    assert list(tables) == values["table.include.list"]["recommended_values"] == ["public.orders", r"odd\.a.b\ \$"]
    assert tables["public.orders"].startswith("about 30,000 rows, ")
    assert tables["public.orders"].endswith(" MB, key id, line")
    assert tables[r"odd\.a.b\ \$"].endswith("no primary key")
    assert set(notes["schema.include.list"]) == {"public", "odd"}
    assert validated(database, database_password="x", database_port="1")[1] == {}
    chosen, _ = validated(database, table_include_list=",".join(tables))
    assert chosen["table.include.list"]["errors"] != []  # odd has no identity, so what was offered names it
    assert 'odd"."a,b $"' in chosen["table.include.list"]["errors"][0]


def test_a_table_whose_updates_would_be_refused_is_told_with_the_sql_that_mends_it(database: Database) -> None:
    database.execute("CREATE TABLE keyed (id integer PRIMARY KEY)", "CREATE TABLE bare (v text)")

    def errors(**settings: str) -> list[str]:
        found: list[str] = validated(database, **settings)[0]["table.include.list"]["errors"]
        return found

    (said,) = errors()
    assert 'ALTER TABLE "public"."bare" REPLICA IDENTITY FULL;' in said
    assert "keyed" not in said
    assert errors(table_exclude_list="public.bare") == []
    database.execute("CREATE PUBLICATION dbz_publication FOR TABLE bare")
    assert errors() == []  # published already: it is as the owner wants it
    database.execute("DROP PUBLICATION dbz_publication", 'ALTER TABLE "public"."bare" REPLICA IDENTITY FULL;')
    assert errors() == []
    database.execute("ALTER TABLE keyed REPLICA IDENTITY NOTHING")
    assert len(errors()) == 1


def gauges(run: Run) -> dict[str, dict[str, Any]]:
    return {str(each["name"]): each for each in run.task.context.metrics.report()}  # type: ignore[attr-defined]


def test_lag_and_what_slots_hold_back_are_measured(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(slots, "_LOOKED_SECONDS", 1.0)
    database.execute("CREATE TABLE t (id serial PRIMARY KEY, v text)")
    run = database.run(slot_retained_warn_bytes="1000")
    database.await_all(run)
    database.execute(f"SELECT pg_create_logical_replication_slot('{database.name}_old', 'pgoutput')")
    database.execute("INSERT INTO t (v) SELECT repeat('x', 1000) FROM generate_series(1, 2000)")

    def value(name: str) -> float:
        return float(gauges(run).get(name, {}).get("value", -1))

    # Nobody polls: it falls behind, and its slot holds the log back.
    eventually(lambda: value("behind") >= 1 and value("lag") > 2_000_000, 60, lambda: str(gauges(run)), pause=0.1)
    assert value("retained_wal") >= value("lag")
    assert gauges(run)["retained_wal"]["limit"] == 1000
    assert value("unread_slot_retained_wal") > 2_000_000
    assert "pg_drop_replication_slot" in str(gauges(run)["unread_slot_retained_wal"]["remedy"])
    database.await_all(run)
    run.poll_until(lambda: value("behind") == 0 and 0 <= value("lag") < 100_000)
    run.stop()
    assert not [each for each in threading.enumerate() if each.name == "slot watch"]
