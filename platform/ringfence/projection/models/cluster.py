"""The cluster's rows: topics, workers, plugins."""

from typing import ClassVar

from django.db import models


class TopicPosition(models.Model):
    """The next offset to apply of a topic's partition. `role`: config, offsets, status or events.

    shown_offset: if it is greater, the rows show what was committed up to there, despite another client's transaction
    that was still open at `applied_offset`.
    """

    role = models.CharField(max_length=16)
    partition = models.IntegerField()
    topic = models.TextField()
    topic_id = models.TextField()
    applied_offset = models.BigIntegerField()
    shown_offset = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["role", "partition"], name="one_position")]


class ClusterInfo(models.Model):
    """One row (id 1): the leader, for pages, the Kafka cluster's id, address and protocol, and its topics
    (`projection.cluster_topics`).

    `topic_ids`: JSON of `fencing.topics.topic_ids`; `topics_lost`: why the cluster has stopped, "" if it has not.
    """

    leader = models.TextField(default="")
    incarnation = models.TextField(default="")
    group_generation = models.IntegerField(default=-1)
    since_ms = models.BigIntegerField(default=0)
    kafka_cluster_id = models.TextField(default="")
    kafka_bootstrap = models.TextField(default="")
    kafka_protocol = models.TextField(default="")
    topic_tracking = models.BooleanField(default=True)
    topic_ids = models.TextField(default="")
    topics_lost = models.TextField(default="")
    topics_lost_ms = models.BigIntegerField(default=0)


class Worker(models.Model):
    """A member of the worker group, as it described itself."""

    worker = models.TextField(primary_key=True)
    incarnation = models.TextField()
    mode = models.CharField(max_length=16)
    slots = models.IntegerField()
    version = models.TextField()
    since_ms = models.BigIntegerField()


class DrainedWorker(models.Model):
    """A worker that gets no tasks, only in this incarnation: after a restart, the same id gets tasks again."""

    worker = models.TextField(primary_key=True)
    incarnation = models.TextField()
    since_ms = models.BigIntegerField(default=0)


class Suspicion(models.Model):
    """What the leader thinks of a worker that was silent, only in this incarnation.

    trust: see `fencing.topics.status.suspicion`; times: how often it was suspected lately.
    """

    worker = models.TextField(primary_key=True)
    incarnation = models.TextField()
    trust = models.CharField(max_length=16)
    times = models.IntegerField(default=0)
    since_ms = models.BigIntegerField(default=0)


class Startups(models.Model):
    """The numbers of connector instances and tasks that a worker has started, according to the status topic."""

    worker = models.TextField(primary_key=True)
    connector_successes = models.BigIntegerField(default=0)
    connector_failures = models.BigIntegerField(default=0)
    task_attempts = models.BigIntegerField(default=0)
    task_successes = models.BigIntegerField(default=0)
    task_failures = models.BigIntegerField(default=0)


class HangingTransaction(models.Model):
    """A transaction that hangs on a partition, as the leader last saw it (KIP-664).

    last_ms: of its newest records; connectors: JSON, those that write to the topic, none for the platform's topics;
    why_not: why it was not ended.
    """

    cluster = models.TextField()
    topic = models.TextField()
    partition = models.IntegerField()
    producer_id = models.BigIntegerField()
    epoch = models.IntegerField(default=0)
    start_offset = models.BigIntegerField(default=0)
    last_ms = models.BigIntegerField(default=0)
    transactional_id = models.TextField(default="")
    connectors = models.TextField(default="[]")
    why_not = models.TextField(default="")


class LogLevel(models.Model):
    """The newest log level that was set for the whole cluster, and the config-topic offset of its record."""

    logger = models.TextField(primary_key=True)
    level = models.CharField(max_length=16, default="")
    config_offset = models.BigIntegerField()


class PluginSecrets(models.Model):
    """The secret settings of a plugin (type PASSWORD), last read from the plugin process. JSON list of names."""

    class_name = models.TextField(primary_key=True)
    names = models.TextField(default="[]")
