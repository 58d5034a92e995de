"""Configurations of connectors that read tables of MariaDB."""

from ringfence.connectors.api.schemas import Field
from ringfence.connectors.builtin.sql.task import SqlSourceTask
from tests.connectors.fakes import FakeContext
from tests.support.mariadb import PASSWORD, MariaDb


def spark_table_config(server: MariaDb, table: str, **more: str) -> dict[str, str]:
    login = {"user": "ringfence", "password": PASSWORD}
    url = f"jdbc:mariadb://127.0.0.1:{server.port}/ringfence"
    return {"url": url, "dbtable": table, **login, "topic": "t", "batch.size": "7", "numPartitions": "9", **more}


def config_of(server: MariaDb, table: str, mode: str, **more: str) -> dict[str, str]:
    return {
        "connection.url": f"jdbc:mariadb://127.0.0.1:{server.port}/ringfence",
        "connection.user": "ringfence",
        "connection.password": PASSWORD,
        "mode": mode,
        "table.whitelist": table,
        "tables": f'[["ringfence", "{table}"]]',
        "topic.prefix": "",
        "poll.interval.ms": "20",
        "timestamp.delay.interval.ms": "0",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def of_query(config: dict[str, str], query: str) -> dict[str, str]:
    config = {**config, "query": query, "topic.prefix": "joined"}
    return {key: value for key, value in config.items() if key not in ("table.whitelist", "tables")}


def schema_of(config: dict[str, str]) -> list[Field]:
    task = SqlSourceTask()
    task.context = FakeContext()
    task.start(config)
    try:
        return list(task._readings[0].rows.schema.fields)
    finally:
        task.stop()
