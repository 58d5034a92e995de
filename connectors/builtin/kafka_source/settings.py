"""The settings and offset fields of KafkaSource; as in MirrorMaker 2's source where it has them."""

from typing import Final

from ringfence.connectors.api import Choices, ConfigDef, ConfigType, Importance, NonEmpty, OneOf, Range, ShownIf, Width
from ringfence.connectors.sdk.kafka_settings import input_group

TOPICS: Final = "topics"
TOPICS_EXCLUDE: Final = "topics.exclude"
SOURCE_ALIAS: Final = "source.cluster.alias"
SOURCE_SERVERS: Final = "source.cluster.bootstrap.servers"
SECURITY: Final = "source.cluster.security.protocol"
MECHANISM: Final = "source.cluster.sasl.mechanism"
USER: Final = "source.cluster.sasl.username"
PASSWORD: Final = "source.cluster.sasl.password"  # noqa: S105 - a setting's name
TARGET_ALIAS: Final = "target.cluster.alias"
TARGET_SERVERS: Final = "target.cluster.bootstrap.servers"
PRODUCER_SERVERS: Final = "producer.override.bootstrap.servers"
ISOLATION: Final = "source.consumer.isolation.level"
POLICY: Final = "replication.policy.class"
SEPARATOR: Final = "replication.policy.separator"
REPLICATION_FACTOR: Final = "replication.factor"
CONFIGS_EXCLUDE: Final = "config.properties.exclude"
REFRESH_SECONDS: Final = "refresh.topics.interval.seconds"
BATCH_SIZE: Final = "batch.size"
DEFAULT_BATCH_SIZE: Final = 2000
POLL_MS: Final = "consumer.poll.timeout.ms"

ASSIGNMENT: Final = input_group.ASSIGNMENT
GROUP_ID: Final = "source.consumer.group.id"
SESSION_TIMEOUT_MS: Final = input_group.SESSION_TIMEOUT_MS

STATIC: Final = "static"
GROUP: Final = input_group.GROUP

TASK_TOPICS: Final = "task.assigned.topics"
"""In a task's configuration, with the assignment `group`: JSON, a list of topics with their numbers of partitions."""
TASK_PARTITIONS: Final = "task.assigned.partitions"
"""In a task's configuration: JSON, a list of [topic, partition]."""

CLUSTER: Final = "cluster"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
"""The keys of the source partition; `cluster` is the source cluster's alias."""
OFFSET: Final = "offset"
"""The key of the source offset: the offset of the last record that was delivered."""

READ_COMMITTED: Final = "read_committed"

IDENTITY: Final = "identity"
PREFIX: Final = "prefix"
_JAVA: Final = "org.apache.kafka.connect.mirror."
POLICIES: Final = {
    IDENTITY: IDENTITY,
    PREFIX: PREFIX,
    f"{_JAVA}IdentityReplicationPolicy": IDENTITY,
    f"{_JAVA}DefaultReplicationPolicy": PREFIX,
}
"""Accepted values of `replication.policy.class`, and the policies they mean."""


def _has_login(protocol: str) -> bool:
    return protocol.strip().upper().startswith("SASL")


CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        TOPICS,
        ConfigType.LIST,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The topics to read: names, and regular expressions that match whole names.",
        group="Source",
        width=Width.LONG,
        display_name="Topics",
    )
    .define(
        SOURCE_SERVERS,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="Addresses of the cluster to read from. Prefix its other client settings with source.cluster., "
        "and those of its consumer alone with source.consumer.; use the names of Kafka's Java clients.",
        group="Source",
        width=Width.LONG,
        display_name="Source cluster",
    )
    .define(
        SECURITY,
        ConfigType.STRING,
        default=None,
        recommender=Choices("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        importance=Importance.HIGH,
        documentation="Whether the source cluster's listener is encrypted (SSL), and asks for a login (SASL). Default: "
        "PLAINTEXT. Certificates are other settings, such as source.cluster.ssl.truststore.location.",
        group="Source",
        width=Width.SHORT,
        dependents=(MECHANISM, USER, PASSWORD),
        display_name="Security",
    )
    .define(
        MECHANISM,
        ConfigType.STRING,
        default=None,
        recommender=ShownIf(SECURITY, _has_login, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        importance=Importance.HIGH,
        documentation="How the login is sent.",
        group="Source",
        width=Width.SHORT,
        display_name="Login mechanism",
    )
    .define(
        USER,
        ConfigType.STRING,
        default=None,
        recommender=ShownIf(SECURITY, _has_login),
        importance=Importance.HIGH,
        documentation="The user of the login. Kafka's Java form, source.cluster.sasl.jaas.config, is accepted, too.",
        group="Source",
        width=Width.MEDIUM,
        display_name="User",
    )
    .define(
        PASSWORD,
        ConfigType.PASSWORD,
        default=None,
        recommender=ShownIf(SECURITY, _has_login),
        importance=Importance.HIGH,
        documentation="The user's password.",
        group="Source",
        width=Width.MEDIUM,
        display_name="Password",
    )
    .define(
        TARGET_SERVERS,
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        importance=Importance.MEDIUM,
        documentation="Addresses of the cluster to write to. Default: producer.override.bootstrap.servers, or the "
        "worker's own cluster. Topics are created there with the source's partitions and configuration. Prefix other "
        "client settings with target.cluster.",
        group="Target",
        width=Width.LONG,
        display_name="Target cluster",
    )
    .define(
        SOURCE_ALIAS,
        ConfigType.STRING,
        default="source",
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The source cluster's name in source offsets, and in topic names with the policy prefix. If "
        "you change it, the connector starts from the beginning.",
        group="Source",
        width=Width.SHORT,
        display_name="Source alias",
    )
    .define(
        TARGET_ALIAS,
        ConfigType.STRING,
        default="target",
        validator=NonEmpty(),
        importance=Importance.LOW,
        documentation="The target cluster's name, for compatibility with MirrorMaker 2. Not used.",
        group="Target",
        width=Width.SHORT,
        display_name="Target alias",
    )
    .define(
        POLICY,
        ConfigType.STRING,
        default=PREFIX,
        validator=OneOf(*POLICIES),
        recommender=Choices(PREFIX, IDENTITY),
        importance=Importance.MEDIUM,
        documentation="Topic names at the target: identity (the same name), or prefix (the source's alias before the "
        "name).",
        group="Target",
        width=Width.MEDIUM,
        display_name="Names of topics",
    )
    .define(
        SEPARATOR,
        ConfigType.STRING,
        default=".",
        validator=NonEmpty(),
        importance=Importance.LOW,
        documentation="The separator between the alias and the topic's name, with the policy prefix.",
        group="Target",
        width=Width.SHORT,
        display_name="Separator",
    )
    .define(
        TOPICS_EXCLUDE,
        ConfigType.LIST,
        default=r".*[\-\.]internal,.*\.replica,__.*",
        importance=Importance.MEDIUM,
        documentation="Topics to exclude from the matching ones: names and regular expressions.",
        group="Source",
        width=Width.LONG,
        display_name="Excluded topics",
    )
    .define(
        ISOLATION,
        ConfigType.STRING,
        default=READ_COMMITTED,
        validator=OneOf(READ_COMMITTED, "read_uncommitted"),
        recommender=Choices(READ_COMMITTED, "read_uncommitted"),
        importance=Importance.MEDIUM,
        documentation="read_committed skips aborted records, and waits for open transactions. With read_uncommitted, "
        "the connector is not exactly once.",
        group="Source",
        width=Width.MEDIUM,
        display_name="Isolation level",
    )
    .define(
        REPLICATION_FACTOR,
        ConfigType.INT,
        default=-1,
        importance=Importance.LOW,
        documentation="For topics that are created at the target; -1 means the brokers' default.",
        group="Target",
        width=Width.SHORT,
        display_name="Replication factor",
    )
    .define(
        CONFIGS_EXCLUDE,
        ConfigType.LIST,
        default=r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
        r"message\.timestamp\.(difference\.max|before\.max|after\.max)\.ms,log\.message\.timestamp\..*,"
        r"unclean\.leader\.election\.enable,min\.insync\.replicas",
        importance=Importance.LOW,
        documentation="Topic settings that are not copied when a topic is created: names and regular expressions.",
        group="Target",
        width=Width.LONG,
        display_name="Excluded topic settings",
    )
    .define(
        ASSIGNMENT,
        ConfigType.STRING,
        default=STATIC,
        validator=OneOf(STATIC, GROUP),
        recommender=Choices(STATIC, GROUP),
        importance=Importance.MEDIUM,
        documentation="static: the connector distributes the partitions to the tasks. group: the tasks join a "
        "consumer group that rebalances the partitions, and the group's offsets are committed in the "
        "transactions; source and target must be the same cluster.",
        group="Source",
        width=Width.SHORT,
        display_name="Assignment",
    )
    .define(
        GROUP_ID,
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        importance=Importance.LOW,
        documentation="The consumer group of the assignment group. Default: ringfence-<name of the connector>.",
        group="Source",
        width=Width.MEDIUM,
        display_name="Consumer group",
    )
    .define(
        SESSION_TIMEOUT_MS,
        ConfigType.INT,
        default=input_group.DEFAULT_SESSION_TIMEOUT_MS,
        validator=Range(1000, 300_000),
        importance=Importance.LOW,
        documentation="With the assignment group: after how long the group reassigns the partitions of a lost task. "
        "Also the default of the transaction timeout, which is at least three commit intervals.",
        group="Source",
        width=Width.SHORT,
        display_name="Session timeout (ms)",
    )
    .define(
        REFRESH_SECONDS,
        ConfigType.INT,
        default=600,
        validator=Range(1),
        importance=Importance.LOW,
        documentation="How often to check for new topics and partitions.",
        group="Source",
        width=Width.SHORT,
        display_name="Refresh interval (s)",
    )
    .define(
        BATCH_SIZE,
        ConfigType.INT,
        default=None,
        validator=Range(1, 100_000),
        importance=Importance.LOW,
        documentation="The maximum number of records in a batch; with transaction.boundary=poll, a batch is a "
        "transaction. Default: 2000, or as many as one record batch of the source has, if it goes out as it came.",
        group="Source",
        width=Width.SHORT,
        display_name="Batch size",
    )
    .define(
        POLL_MS,
        ConfigType.LONG,
        default=1000,
        validator=Range(1, 10_000),
        importance=Importance.LOW,
        documentation="How long to wait for records before the task checks whether it must stop.",
        group="Source",
        width=Width.SHORT,
        display_name="Poll timeout (ms)",
    )
)
