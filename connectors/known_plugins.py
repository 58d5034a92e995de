"""What to do about connector classes that people bring and that are not installed: which package has them, or which
connector of Ringfence reads the same source. Pure.
"""

from typing import Final

from ringfence.connectors.class_names import short_names

_DEBEZIUM: Final = "3.5.0.Final"
_KAFKA: Final = "4.3.0"
_INSTALL: Final = "Install the plugin: ringfence plugins install {coordinates}."
_DEBEZIUM_MODULES: Final = {
    "mysql.MySqlConnector": "mysql",
    "mariadb.MariaDbConnector": "mariadb",
    "mongodb.MongoDbConnector": "mongodb",
    "sqlserver.SqlServerConnector": "sqlserver",
    "db2.Db2Connector": "db2",
    "informix.InformixConnector": "informix",
    "vitess.VitessConnector": "vitess",
    "spanner.SpannerConnector": "spanner",
}
_POSTGRES: Final = "io.debezium:debezium-connector-postgres:3.7.0.Final"
_MIRROR: Final = f"org.apache.kafka:connect-mirror:{_KAFKA}"
_FILES: Final = "Use FilesSource, which reads CSV, JSON lines, Avro, Parquet and text files."
_JDBC: Final = "Set connector.class=SqlSource, which has the same settings."

_REMEDIES: Final = {
    **{
        f"io.debezium.connector.{name}": _INSTALL.format(
            coordinates=f"io.debezium:debezium-connector-{module}:{_DEBEZIUM}"
        )
        for name, module in _DEBEZIUM_MODULES.items()
    },
    "io.debezium.connector.oracle.OracleConnector": _INSTALL.format(
        coordinates=f"io.debezium:debezium-connector-oracle:{_DEBEZIUM}"
    )
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
