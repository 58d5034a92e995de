"""What the Java benchmark reads: plugins, configurations and a server, the same for both sides."""

from pathlib import Path

from benchmarks.connect import FILE, JSON_CONVERTER, STRING_CONVERTER
from ringfence.local.jars import Coordinate, resolve
from tests.support.postgres import Postgres

DEBEZIUM = Coordinate("io.debezium", "debezium-connector-postgres", "3.7.0.Final")
Config = dict[str, str]


def file_config(boundary: str, path: Path, topic: str) -> Config:
    """boundary: interval (of a second) or poll."""
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000", "batch.size": "2000"}
    poll = {"transaction.boundary": "poll", "batch.size": "4000"}
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(path),
        "topic": topic,
        "key.converter": STRING_CONVERTER,
        "value.converter": STRING_CONVERTER,
        "exactly.once.support": "required",
        **(interval if boundary == "interval" else poll),
    }


def debezium_config(postgres: Postgres, name: str, table: str, mode: str) -> Config:
    """Of a connector with a slot and a publication of its own."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": postgres.url.rpartition(":")[2].partition("/")[0],
        "database.user": "ringfence",
        "database.password": "none",
        "database.dbname": "ringfence",
        "topic.prefix": name,
        "table.include.list": table,
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "snapshot.mode": mode,
        "poll.interval.ms": "100",
        "key.converter": JSON_CONVERTER,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON_CONVERTER,
        "value.converter.schemas.enable": "false",
        "exactly.once.support": "required",
    }


def plugin_path(root: Path) -> Path:
    """Both plugins, each in its folder."""
    folder = root / "plugins"
    folder.mkdir(parents=True)
    for plugin in (FILE, DEBEZIUM):
        (folder / plugin.artifact).symlink_to(resolve(plugin.artifact, [plugin]))
    return folder
