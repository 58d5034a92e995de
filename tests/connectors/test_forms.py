"""What forms show of our own connectors: lists where there is a choice, and only settings that mean something."""

import pytest

from ringfence.connectors.api import ConfigKey, ConfigType, Importance, OneOf, SourceConnector
from ringfence.connectors.builtin.dlt_source.connector import DltSourceConnector
from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.connectors.builtin.pyspark_source.connector import PySparkSourceConnector
from ringfence.connectors.builtin.share_group.connector import ShareGroupSourceConnector
from ringfence.connectors.builtin.spark_table.connector import SparkTableSourceConnector
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.webhook.connector import WebhookSourceConnector

CONNECTORS: tuple[type[SourceConnector], ...] = (
    DltSourceConnector,
    FileStreamSourceConnector,
    FilesSourceConnector,
    KafkaSourceConnector,
    PySparkSourceConnector,
    ShareGroupSourceConnector,
    SparkTableSourceConnector,
    SqlSourceConnector,
    WebhookSourceConnector,
)


@pytest.mark.parametrize("cls", CONNECTORS)
def test_settings_have_a_label_and_a_list_where_there_is_a_choice(cls: type[SourceConnector]) -> None:
    keys = cls.config_def().keys.values()
    assert [key.name for key in keys if key.display_name == key.name] == [], "without a label"
    assert [key.name for key in keys if isinstance(key.validator, OneOf) and not _offers(key)] == [], "without a list"


def _offers(key: ConfigKey) -> bool:
    return key.recommender is not None and bool(key.recommender.valid_values(key.name, {}))


def shown(cls: type[SourceConnector], **config: str) -> set[str]:
    given = {name.replace("_", "."): value for name, value in config.items()}
    return {value.name for value in cls.config_def().validate(given) if value.visible}


@pytest.mark.parametrize("cls", [FilesSourceConnector, SparkTableSourceConnector])
@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs", "sftp"])
def test_a_place_shows_its_own_settings_only(cls: type[SourceConnector], scheme: str) -> None:
    prefix = {"s3": "s3", "gs": "gcs", "abfs": "azure", "sftp": "sftp"}[scheme]
    names = shown(cls, url=f"{scheme}://somewhere/in")
    of_places = {key for key in cls.config_def().keys if key.partition(".")[0] in ("s3", "gcs", "azure", "sftp")}
    assert names & of_places == {key for key in of_places if key.startswith(f"{prefix}.")}
    assert not shown(cls, url="file:///in") & of_places
    assert not shown(cls) & of_places


def test_files_show_what_the_format_and_the_end_need() -> None:
    cls = FilesSourceConnector
    assert {"csv.delimiter", "csv.header", "encoding"} <= shown(cls, format="csv")
    assert not {"csv.delimiter", "csv.header", "encoding"} & shown(cls, format="parquet")
    assert "move.to" in shown(cls, after="move")
    assert "move.to" not in shown(cls)


@pytest.mark.parametrize(
    ("mode", "columns"),
    [
        ("bulk", set()),
        ("xmin", set()),
        ("incrementing", {"incrementing.column.name"}),
        ("timestamp", {"timestamp.column.name"}),
        ("timestamp+incrementing", {"incrementing.column.name", "timestamp.column.name"}),
    ],
)
def test_a_mode_shows_the_columns_that_it_reads_by(mode: str, columns: set[str]) -> None:
    keys = SqlSourceConnector.config_def().keys
    both = {"incrementing.column.name", "timestamp.column.name"}
    assert shown(SqlSourceConnector, mode=mode) & both == columns
    assert {keys[name].importance for name in both} == {Importance.HIGH}, "they are among the advanced ones"


def test_a_database_file_shows_no_user() -> None:
    assert "connection.user" in shown(SqlSourceConnector, connection_url="jdbc:postgresql://host/db")
    assert "connection.user" not in shown(SqlSourceConnector, connection_url="jdbc:sqlite:/in/shop.sqlite")


def test_a_big_table_shows_what_its_address_needs() -> None:
    of_database = {"dbtable", "user", "password", "partitionColumn", "numPartitions"}
    assert of_database <= shown(SparkTableSourceConnector, url="jdbc:postgresql://host/db")
    assert "part.rows" not in shown(SparkTableSourceConnector, url="jdbc:postgresql://host/db")
    assert not of_database & shown(SparkTableSourceConnector, url="s3://bucket/table")
    assert "part.rows" in shown(SparkTableSourceConnector, url="s3://bucket/table")


def test_dlt_shows_a_description_or_arguments() -> None:
    assert {"rest.config", "rest.auth"} <= shown(DltSourceConnector)
    assert {"dlt.config", "dlt.secrets"} <= shown(DltSourceConnector, dlt_source="weather")
    assert "rest.config" not in shown(DltSourceConnector, dlt_source="weather")
    (source,) = (value for value in DltSourceConnector.config_def().validate({}) if value.name == "dlt.source")
    assert source.recommended_values[0] == "rest_api"


def test_a_password_is_never_a_list() -> None:
    for cls in CONNECTORS:
        for key in cls.config_def().keys.values():
            assert key.type is not ConfigType.PASSWORD or not _offers(key), key.name
