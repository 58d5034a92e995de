"""The settings and offset fields of KafkaSource; as in MirrorMaker 2's source where it has them."""

from typing import Final

from ringfence.connectors.api import NO_DEFAULT, Choices, ConfigDef, Importance, NonEmpty, OneOf, ShownIf, Width
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


CONFIG_DEF: Final = ConfigDef()
_source: Final = CONFIG_DEF.group("Source")
_target: Final = CONFIG_DEF.group("Target")
_IF_LOGIN: Final = ShownIf(SECURITY, _has_login)

_source.items(
    TOPICS,
    "The topics to read: names, and regular expressions that match whole names.",
    NO_DEFAULT,
    display_name="Topics",
)
_source.text(
    SOURCE_SERVERS,
    "Addresses of the cluster to read from. Prefix its other client settings with source.cluster., "
    "and those of its consumer alone with source.consumer.; use the names of Kafka's Java clients.",
    width=Width.LONG,
    display_name="Source cluster",
)
_source.text(
    SECURITY,
    "Whether the source cluster's listener is encrypted (SSL), and asks for a login (SASL). Default: "
    "PLAINTEXT. Certificates are other settings, such as source.cluster.ssl.truststore.location.",
    None,
    recommender=Choices("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    importance=Importance.HIGH,
    width=Width.SHORT,
    dependents=(MECHANISM, USER, PASSWORD),
    display_name="Security",
)
_source.text(
    MECHANISM,
    "How the login is sent.",
    None,
    recommender=ShownIf(SECURITY, _has_login, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    importance=Importance.HIGH,
    width=Width.SHORT,
    display_name="Login mechanism",
)
_source.text(
    USER,
    "The user of the login. Kafka's Java form, source.cluster.sasl.jaas.config, is accepted, too.",
    None,
    recommender=_IF_LOGIN,
    importance=Importance.HIGH,
    width=Width.MEDIUM,
    display_name="User",
)
_source.secret(
    PASSWORD,
    "The user's password.",
    recommender=_IF_LOGIN,
    importance=Importance.HIGH,
    width=Width.MEDIUM,
    display_name="Password",
)
_target.text(
    TARGET_SERVERS,
    "Addresses of the cluster to write to. Default: producer.override.bootstrap.servers, or the "
    "worker's own cluster. Topics are created there with the source's partitions and configuration. Prefix other "
    "client settings with target.cluster.",
    None,
    validator=NonEmpty(),
    width=Width.LONG,
    display_name="Target cluster",
)
_source.text(
    SOURCE_ALIAS,
    "The source cluster's name in source offsets, and in topic names with the policy prefix. If "
    "you change it, the connector starts from the beginning.",
    "source",
    validator=NonEmpty(),
    importance=Importance.HIGH,
    width=Width.SHORT,
    display_name="Source alias",
)
_target.text(
    TARGET_ALIAS,
    "The target cluster's name, for compatibility with MirrorMaker 2. Not used.",
    "target",
    validator=NonEmpty(),
    importance=Importance.LOW,
    width=Width.SHORT,
    display_name="Target alias",
)
_target.text(
    POLICY,
    "Topic names at the target: identity (the same name), or prefix (the source's alias before the name).",
    PREFIX,
    validator=OneOf(*POLICIES),
    recommender=Choices(PREFIX, IDENTITY),
    width=Width.MEDIUM,
    display_name="Names of topics",
)
_target.text(
    SEPARATOR,
    "The separator between the alias and the topic's name, with the policy prefix.",
    ".",
    validator=NonEmpty(),
    importance=Importance.LOW,
    width=Width.SHORT,
    display_name="Separator",
)
_source.items(
    TOPICS_EXCLUDE,
    "Topics to exclude from the matching ones: names and regular expressions.",
    r".*[\-\.]internal,.*\.replica,__.*",
    display_name="Excluded topics",
)
_source.choice(
    ISOLATION,
    "read_committed skips aborted records, and waits for open transactions. With read_uncommitted, "
    "the connector is not exactly once.",
    (READ_COMMITTED, "read_uncommitted"),
    READ_COMMITTED,
    width=Width.MEDIUM,
    display_name="Isolation level",
)
_target.integer(
    REPLICATION_FACTOR,
    "For topics that are created at the target; -1 means the brokers' default.",
    -1,
    importance=Importance.LOW,
    display_name="Replication factor",
)
_target.items(
    CONFIGS_EXCLUDE,
    "Topic settings that are not copied when a topic is created: names and regular expressions.",
    r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\.(difference\.max|before\.max|after\.max)\.ms,log\.message\.timestamp\..*,"
    r"unclean\.leader\.election\.enable,min\.insync\.replicas",
    importance=Importance.LOW,
    display_name="Excluded topic settings",
)
_source.choice(
    ASSIGNMENT,
    "static: the connector distributes the partitions to the tasks. group: the tasks join a "
    "consumer group that rebalances the partitions, and the group's offsets are committed in the "
    "transactions; source and target must be the same cluster.",
    (STATIC, GROUP),
    STATIC,
    display_name="Assignment",
)
_source.text(
    GROUP_ID,
    "The consumer group of the assignment group. Default: ringfence-<name of the connector>.",
    None,
    validator=NonEmpty(),
    importance=Importance.LOW,
    width=Width.MEDIUM,
    display_name="Consumer group",
)
_source.integer(
    SESSION_TIMEOUT_MS,
    "With the assignment group: after how long the group reassigns the partitions of a lost task. "
    "Also the default of the transaction timeout, which is at least three commit intervals.",
    input_group.DEFAULT_SESSION_TIMEOUT_MS,
    1000,
    300_000,
    importance=Importance.LOW,
    display_name="Session timeout (ms)",
)
_source.integer(
    REFRESH_SECONDS,
    "How often to check for new topics and partitions.",
    600,
    1,
    importance=Importance.LOW,
    display_name="Refresh interval (s)",
)
_source.integer(
    BATCH_SIZE,
    "The maximum number of records in a batch; with transaction.boundary=poll, a batch is a "
    "transaction. Default: 2000, or as many as one record batch of the source has, if it goes out as it came.",
    None,
    1,
    100_000,
    importance=Importance.LOW,
    display_name="Batch size",
)
_source.long(
    POLL_MS,
    "How long to wait for records before the task checks whether it must stop.",
    1000,
    1,
    10_000,
    importance=Importance.LOW,
    display_name="Poll timeout (ms)",
)
