"""What is known about connector classes that people bring: how the catalog shows them, and if they are not installed,
which package has them, or which connector of Ringfence reads the same source. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ringfence.connectors.api import CatalogEntry, Category
from ringfence.connectors.class_names import short_names

_DEBEZIUM: Final = "3.5.0.Final"
_KAFKA: Final = "4.3.0"
_INSTALL: Final = "Install the plugin: ringfence plugins install {coordinates}."
_DEBEZIUM_MODULES: Final = {
    "mysql.MySqlConnector": ("mysql", "MySQL"),
    "mariadb.MariaDbConnector": ("mariadb", "MariaDB"),
    "mongodb.MongoDbConnector": ("mongodb", "MongoDB"),
    "sqlserver.SqlServerConnector": ("sqlserver", "SQL Server"),
    "db2.Db2Connector": ("db2", "Db2"),
    "informix.InformixConnector": ("informix", "Informix"),
    "vitess.VitessConnector": ("vitess", "Vitess"),
    "spanner.SpannerConnector": ("spanner", "Spanner"),
}
_DEBEZIUM_SELECTS: Final = tuple(
    f"{what}.{which}.list"
    for what in ("database", "schema", "table", "collection", "column")
    for which in ("include", "exclude")
)
_POSTGRES: Final = "io.debezium:debezium-connector-postgres:3.7.0.Final"


def _write_coordinates(module: str) -> str:
    return f"io.debezium:debezium-connector-{module}:{_DEBEZIUM}"


_MIRROR: Final = f"org.apache.kafka:connect-mirror:{_KAFKA}"
_FILES: Final = "Use FilesSource, which reads CSV, JSON lines, Avro, Parquet and text files."
_JDBC: Final = "Set connector.class=SqlSource, which has the same settings."

_REMEDIES: Final = {
    **{
        f"io.debezium.connector.{name}": _INSTALL.format(coordinates=_write_coordinates(module))
        for name, (module, _) in _DEBEZIUM_MODULES.items()
    },
    "io.debezium.connector.oracle.OracleConnector": _INSTALL.format(coordinates=_write_coordinates("oracle"))
    + " Add Oracle's JDBC driver (ojdbc11) to its folder.",
    "io.debezium.connector.postgresql.PostgresConnector": "Set connector.class=PostgresSource, which has the same "
    f"settings and records; or install the plugin: ringfence plugins install {_POSTGRES}.",
    "io.confluent.connect.jdbc.JdbcSourceConnector": _JDBC,
    "io.aiven.connect.jdbc.JdbcSourceConnector": _JDBC,
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": "Use KafkaSource.",
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": _INSTALL.format(coordinates=_MIRROR),
    "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector": _INSTALL.format(coordinates=_MIRROR),
    "org.apache.kafka.connect.tools.SchemaSourceConnector": "Use VerifiableSource.",
    "org.apache.kafka.connect.tools.MockSourceConnector": "Use VerifiableSource.",
    "com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector": _FILES,
    "com.github.jcustenborder.kafka.connect.spooldir.SpoolDirJsonSourceConnector": _FILES,
    "com.github.jcustenborder.kafka.connect.spooldir.SpoolDirLineDelimitedSourceConnector": _FILES,
    "io.streamthoughts.kafka.connect.filepulse.source.FilePulseSourceConnector": _FILES,
    "io.confluent.connect.s3.source.S3SourceConnector": _FILES,
    "io.confluent.connect.sftp.SftpCsvSourceConnector": _FILES,
    "com.github.castorm.kafka.connect.http.HttpSourceConnector": "Use DltSource, which reads REST APIs.",
    "io.confluent.connect.http.HttpSourceConnector": "Use DltSource, which reads REST APIs.",
}


@dataclass(frozen=True, slots=True)
class KnownPlugin:
    """entry: how the catalog shows it. coordinates: what to install for it; "" if that is not enough. preset: settings
    that a new form begins with, because few servers work with the plugin's own defaults.
    """

    entry: CatalogEntry
    coordinates: str = ""
    preset: Mapping[str, str] = field(default_factory=dict)


def _by_debezium(server: str, coordinates: str = "", preset: Mapping[str, str] | None = None) -> KnownPlugin:
    summary = f"Change data capture of {server}: a snapshot, then each insert, update and delete."
    entry = CatalogEntry(
        f"{server} changes, by Debezium", summary, Category.DATABASES, icon="database-zap", selects=_DEBEZIUM_SELECTS
    )
    return KnownPlugin(entry, coordinates, preset or {})


def _by_mirror_maker(title: str, summary: str, icon: str) -> KnownPlugin:
    return KnownPlugin(CatalogEntry(f"{title}, by MirrorMaker 2", summary, Category.KAFKA, icon=icon), _MIRROR)


def _by_kafka_connect(title: str, summary: str, icon: str, category: Category) -> KnownPlugin:
    return KnownPlugin(CatalogEntry(f"{title}, by Kafka Connect", summary, category, icon=icon))


_CATALOG: Final = {
    **{
        f"io.debezium.connector.{name}": _by_debezium(server, _write_coordinates(module))
        for name, (module, server) in _DEBEZIUM_MODULES.items()
    },
    "io.debezium.connector.oracle.OracleConnector": _by_debezium("Oracle"),
    "io.debezium.connector.postgresql.PostgresConnector": _by_debezium(
        "PostgreSQL", _POSTGRES, {"plugin.name": "pgoutput"}
    ),
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": _by_mirror_maker(
        "Topics of a Kafka cluster", "Copies topics from another cluster.", "waypoints"
    ),
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": _by_mirror_maker(
        "Offsets of consumer groups", "Translates committed offsets of another cluster.", "milestone"
    ),
    "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector": _by_mirror_maker(
        "Heartbeats between clusters", "Shows that replication is alive.", "heart-pulse"
    ),
    "org.apache.kafka.connect.file.FileStreamSourceConnector": _by_kafka_connect(
        "One text file", "Follows a file that other programs append to.", "file-text", Category.FILES
    ),
    "org.apache.kafka.connect.tools.VerifiableSourceConnector": _by_kafka_connect(
        "Numbers for tests", "Counts at a given rate.", "hash", Category.TESTS
    ),
    "org.apache.kafka.connect.tools.MockSourceConnector": _by_kafka_connect(
        "Failures for tests", "Writes nothing, and fails on request.", "flask-conical", Category.TESTS
    ),
    "org.apache.kafka.connect.tools.SchemaSourceConnector": _by_kafka_connect(
        "Records with schemas for tests", "Counts, with a schema.", "braces", Category.TESTS
    ),
    "org.apache.camel.kafkaconnector.CamelSourceConnector": KnownPlugin(
        CatalogEntry(
            "Any of Apache Camel's components",
            "Files, mail, message queues, clouds and others, by the address of a Camel component.",
            Category.APPLICATIONS,
            icon="cable",
        )
    ),
}


def find_known(class_name: str) -> KnownPlugin | None:
    """Return what is known about the class, by its full name; None if nothing is."""
    return _CATALOG.get(class_name)


def list_installable() -> Mapping[str, KnownPlugin]:
    """Return the known classes that one installation from Maven Central brings."""
    return {name: plugin for name, plugin in _CATALOG.items() if plugin.coordinates}


_COUNTERPARTS: Final = {
    "io.debezium.connector.postgresql.PostgresConnector": "PostgresSource",
    "io.aiven.connect.jdbc.JdbcSourceConnector": "SqlSource",
}


def find_counterpart(class_name: str) -> str:
    """Return the connector of Ringfence that has this class's settings under another name; "" if there is none."""
    return _COUNTERPARTS.get(class_name, "")


def find_remedy(class_name: str) -> str:
    """Return what to do if this class is not installed, in a sentence or two; "" if nothing is known about it."""
    remedy = _REMEDIES.get(class_name)
    if remedy is not None:
        return remedy
    simple = class_name.rpartition(".")[2]
    if simple.endswith(("Sink", "SinkConnector", "SinkTask")):
        return "Ringfence runs source connectors only. Run sink connectors in Kafka Connect, on the same topics."
    matches = [name for name in _REMEDIES if simple and simple in short_names(name)]
    return _REMEDIES[matches[0]] if len(matches) == 1 else ""
