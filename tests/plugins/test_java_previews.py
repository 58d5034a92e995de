"""Previews and forms of Java connectors, with a real JVM and real databases: nothing is changed anywhere."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from ringfence.connectors.java import runtime
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.egress import EGRESS_ALLOW
from ringfence.engine.plugins import BadRequest, PluginError, PluginHost
from ringfence.engine.plugins.calls import PreviewRecords, TryChain, ValidateConfig, pairs_of
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import topic_exists
from ringfence.local.jars import Coordinate
from ringfence.web.new.layout import layout
from tests.support.broker import Broker
from tests.support.debezium_stage import orders_postgres
from tests.support.java_plugins import (
    DEBEZIUM,
    DEBEZIUM_CLASS,
    DEBEZIUM_MARIADB,
    DEBEZIUM_MARIADB_CLASS,
    FILE_STREAM,
    FILE_STREAM_CLASS,
    plugin_path,
    runtime_of,
)
from tests.support.mariadb import PASSWORD, WITH_BINLOG, mariadb
from tests.support.names import unique
from tests.support.plugin_hosts import PATIENCE
from tests.support.postgres import Postgres
from tests.support.preview_bounds import BOUNDS

JSON = "org.apache.kafka.connect.json.JsonConverter"
OFFSET = {"lsn": 26582104, "lsn_proc": 26582104, "lsn_commit": 26582104, "txId": 728, "ts_usec": 1}
"""Of a connector that streams: it would read no table again."""


CAST = "org.apache.kafka.connect.transforms.Cast$Value"
ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
PREDICATES = "org.apache.kafka.connect.transforms.predicates"
BASIC = {
    "name": "c",
    "tasks.max": "1",
    "key.converter": JSON,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
OF_POSTGRES = {
    "connector.class": DEBEZIUM_CLASS,
    "database.user": "ringfence",
    "database.password": "none",
    "database.dbname": "ringfence",
    "topic.prefix": "p",
    "table.include.list": "public.orders",
    "plugin.name": "pgoutput",
    "slot.name": "orders",
}
OF_MARIADB = {
    "connector.class": DEBEZIUM_MARIADB_CLASS,
    "database.user": "ringfence",
    "database.password": PASSWORD,
    "database.server.id": "5402",
    "topic.prefix": "p",
    "table.include.list": "ringfence.orders",
    "schema.history.internal.kafka.topic": "history",
}


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with orders_postgres() as server:
        yield server


@contextmanager
def hosted(tmp_path: Path, plugin: Coordinate) -> Iterator[PluginHost]:
    """It may read files below `tmp_path`."""
    java = runtime_of(plugin_path(tmp_path, plugin))
    told = {
        runtime.ENVIRONMENT: json.dumps(java.as_settings()),
        worker_limits.ENVIRONMENT: json.dumps({worker_limits.FILE_ROOTS: str(tmp_path), EGRESS_ALLOW: "loopback"}),
    }
    host = PluginHost(environment=told, call_seconds=PATIENCE)
    try:
        yield host
    finally:
        host.close()


def previewed(host: PluginHost, config: dict[str, str], offsets: Any = ()) -> Any:
    return host.ask(PreviewRecords({**BASIC, **config}, pairs_of(offsets), {}, [], {**BOUNDS, "seconds": 30.0}), 60)


def values(found: Any) -> list[Any]:
    return [json.loads(each["written"]["value"]["text"]) for each in found["records"]]


def count_processes() -> int:
    return sum(one.name() == "java" for one in psutil.Process().children(recursive=True))


@pytest.mark.thorough
def test_file_stream_through_java_transforms_and_converters(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(20)))
    config = {"connector.class": FILE_STREAM_CLASS, "file": str(lines), "topic": "t"}
    config |= {"transforms": "n", "transforms.n.type": CAST, "transforms.n.spec": "int32"}
    before = count_processes()
    with hosted(tmp_path, FILE_STREAM) as host:
        found = previewed(host, config)
        assert (values(found), found["tasks"], found["ended"]) == ([0, 1, 2, 3, 4], 1, "records")
        assert [each["source_partition"] for each in found["records"]] == [{"filename": str(lines)}] * 5
        later = previewed(host, config, [({"filename": str(lines)}, {"position": 20})])
        assert values(later) == [10, 11, 12, 13, 14], "from the committed offset on"
        lines.write_text("no number\n")
        with pytest.raises(PluginError, match="no number"):
            previewed(host, config)
        with pytest.raises(BadRequest, match=r"file\.roots"):
            previewed(host, {**config, "file": "/etc/passwd"})
    assert count_processes() == before, "a preview's Java process ends with it"


def test_a_made_up_record_through_java_transforms_and_converters(tmp_path: Path) -> None:
    """Step by step, as for a connector in Python; the file, which is not there, is not read."""
    config = {**BASIC, "connector.class": FILE_STREAM_CLASS, "file": str(tmp_path / "none"), "topic": "t"}
    config |= {"transforms": "n,drop", "transforms.n.type": CAST, "transforms.n.spec": "n:int32"}
    config |= {
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "dead",
    }
    config |= {"predicates": "dead", "predicates.dead.type": f"{PREDICATES}.RecordIsTombstone"}
    with hosted(tmp_path, FILE_STREAM) as host:

        def tried(record: object, **more: str) -> Any:
            return host.ask(TryChain({**config, **more}, {"topic": "t", **dict(record or {})}, {}, ["my.token"]))  # type: ignore[call-overload]

        found = tried({"key": {"k": 1}, "value": {"n": "12", "o": None}, "headers": [["h", "x"]], "timestamp": 5})
        assert [(each["name"], each["type"], each["outcome"]) for each in found["steps"]] == [
            ("n", CAST, "changed"),
            ("drop", config["transforms.drop.type"], "unchanged"),
        ]
        assert found["before"]["value"] == {"type": "object", "text": '{"n": "12", "o": null}', "cut": 0}
        assert found["steps"][0]["record"]["value"]["text"] == '{"n": 12, "o": null}'
        written = found["written"]
        assert (found["outcome"], written["topic"], written["timestamp"]) == ("written", "t", 5)
        assert json.loads(written["value"]["text"]) == {"n": 12, "o": None}
        assert json.loads(written["key"]["text"]) == {"schema": None, "payload": {"k": 1}}
        assert [(name, value["text"]) for name, value in written["headers"]] == [("h", "x")]

        struct = {"type": "struct", "fields": [{"field": "n", "type": "string"}]}
        typed = tried(
            {"value": {"schema": struct, "payload": {"n": "12"}}}, **{"value.converter.schemas.enable": "true"}
        )
        made = json.loads(typed["written"]["value"]["text"])
        assert (made["schema"]["fields"][0]["type"], made["payload"]) == ("int32", {"n": 12})

        dead = tried({"value": None}, transforms="drop")
        assert (dead["outcome"], dead["written"], [each["outcome"] for each in dead["steps"]]) == (
            "dropped",
            None,
            ["dropped"],
        )
        failed = tried({"value": {"n": "hunter2 twelve"}}, **{"my.token": "hunter2"})
        assert (failed["outcome"], failed["steps"][0]["outcome"], len(failed["steps"])) == ("failed", "failed", 1)
        assert "[hidden] twelve" in failed["error"]
        cut = {"transforms.n.type": ROUTER, "transforms.n.regex": ".*hun(.*)", "transforms.n.replacement": "$1"}
        routed = tried({"topic": "hunter2", "value": {}}, transforms="n", **cut, **{"my.token": "hunter2"})
        assert routed["written"]["topic"] == "[hidden]", "no transform takes a secret apart"
        text = "org.apache.kafka.connect.converters.IntegerConverter"
        refused = tried({"value": {"n": "1"}}, **{"value.converter": text})
        assert (refused["outcome"], refused["steps"][0]["outcome"]) == ("failed", "changed")
        assert "; caused by java.lang.ClassCastException" in refused["error"], (
            "what the converter's own error was raised from"
        )
        for wrong in (
            {"transforms.n.spec": "n:number"},
            {"transforms.n.type": "no.such.Transform"},
            {"key.converter": "no.such"},
        ):
            with pytest.raises(BadRequest):
                tried({}, **wrong)
        with pytest.raises(BadRequest, match=r"file\.roots"):
            tried({}, **{"transforms.n.secret.file": "/etc/passwd"})
        again = tried({"value": {"n": "7"}})
        assert again["outcome"] == "written"


@pytest.mark.slow
def test_debezium_for_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    config = {**OF_POSTGRES, "database.hostname": "127.0.0.1", "database.port": str(postgres.port)}
    with hosted(tmp_path, DEBEZIUM) as host:
        found = previewed(host, config)
        again = previewed(host, config, [({"server": "p"}, OFFSET)])
        for one in (found, again):
            assert [body["after"] for body in values(one)] == [
                {"id": number, "customer": f"c{number}", "n": 0} for number in range(1, 6)
            ]
        with pytest.raises(BadRequest, match=r"database\.port"):
            previewed(host, {**config, "database.port": "many"})
    with psycopg.connect(postgres.url) as database:
        assert database.execute("select slot_name from pg_replication_slots").fetchall() == []
        assert database.execute("select pubname from pg_publication").fetchall() == []


@pytest.mark.slow
def test_debezium_for_mariadb(broker: Broker, tmp_path: Path) -> None:
    history = unique("history")
    with mariadb(tmp_path, WITH_BINLOG) as server, hosted(tmp_path, DEBEZIUM_MARIADB) as host:
        server.run("CREATE TABLE orders(id INT PRIMARY KEY)", "INSERT INTO orders SELECT seq FROM seq_1_to_20")
        config = {**OF_MARIADB, "database.hostname": "127.0.0.1", "database.port": str(server.port)}
        config |= {"schema.history.internal.kafka.bootstrap.servers": broker.bootstrap}
        found = previewed(
            host, {**config, "schema.history.internal.kafka.topic": history, "include.schema.changes": "false"}
        )
    assert [body["after"] for body in values(found)] == [{"id": number} for number in range(1, 6)]
    assert not topic_exists(Connection(broker.bootstrap), history, Deadline.after(30))


@pytest.mark.slow
def test_what_debezium_recommends_is_in_the_answer_and_in_the_form(postgres: Postgres, tmp_path: Path) -> None:
    config = {**BASIC, **OF_POSTGRES, "database.hostname": "127.0.0.1", "database.port": str(postgres.port)}
    with hosted(tmp_path, DEBEZIUM) as host:
        answer: Any = host.ask(ValidateConfig(DEBEZIUM_CLASS, dict(config)))
        wrong: Any = host.ask(ValidateConfig(DEBEZIUM_CLASS, {**config, "snapshot.mode": "sometimes"}))
    assert answer["error_count"] == 0
    recommended = {each["value"]["name"]: each["value"]["recommended_values"] for each in answer["configs"]}
    assert set(recommended["plugin.name"]) == {"decoderbufs", "pgoutput"}
    assert {"initial", "initial_only", "no_data", "when_needed"} <= set(recommended["snapshot.mode"])
    fields = {each.name: each for each in layout(answer, config, lambda _: False).fields()}
    assert (fields["snapshot.mode"].kind, fields["snapshot.mode"].choices) == ("choice", recommended["snapshot.mode"])
    assert fields["plugin.name"].value == "pgoutput"
    (refused,) = layout(wrong, {**config, "snapshot.mode": "sometimes"}, lambda _: False).wrong
    assert refused.name == "snapshot.mode"
    assert "Value must be one of" in refused.errors[0]
