"""Rows made from the config, offsets, status and events topics. Only the projector writes them.

Tables refer to connectors by name, not by foreign key: records of one topic may come before those of another. JSON is
stored as ASCII text, since PostgreSQL's jsonb refuses some characters that a configuration may have. Times are in
milliseconds since the epoch, 0 for "never".
"""

import hashlib
import json
from typing import Any, ClassVar, cast
from urllib.parse import quote

from django.db import models

from ringfence.encryption import decrypt_text
from ringfence.fencing.topics.status import PollRetry, failed_record
from ringfence.fencing.topics.status.failed_record import RecordFailure
from ringfence.plain_queries import read
from ringfence.projection.records import loads_clean


def pack(value: object) -> str:
    """Return a value as compact ASCII JSON with sorted keys, so that equal values are equal strings."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


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


class Connector(models.Model):
    """A connector: its target state (config topic) and its actual state (status topic).

    `known`: the config topic has it; otherwise the row is only a status that waits for its config or its tombstone.
    `health`, since `health_since_ms`, `severity` and the counts are derived from this row and its tasks at each change
    of either.
    `stalled`: it runs, but has moved nothing for longer than usual; `usual_pause`: in minutes (`projection.stalls`).
    `log_level`: what its tasks publish of their logs until then, "" for the default.
    `topic_grant`: the value of its `TopicGrantRecord`, packed JSON, "" for none: a restore from the database needs it.
    `generation_number`: its generations counted from 1, for users.
    `rounds_total`: finished fencing rounds; `fenced_total`: transactional ids that they fenced.
    `hanging_ended_total`: hanging transactions that were ended.
    `trouble`: why it moves nothing now (`projection.health.Trouble`), "" for no reason, since `trouble_since_ms`.
    `records_total` to `last_commit_ms`: the sums of its `RecordTotals`. `recent_skipped`, `recent_dead_letters`: of the
    last hour, since `bad_since_ms` without a pause of an hour (`projection.record_totals`).
    """

    name = models.TextField(primary_key=True)
    known = models.BooleanField(default=False)
    config = models.TextField(default="{}")
    config_offset = models.BigIntegerField(default=-1)
    class_name = models.TextField(default="")
    type = models.CharField(max_length=16, default="source")
    target = models.CharField(max_length=16, default="RUNNING")
    generation = models.BigIntegerField(default=-1)
    generation_number = models.IntegerField(default=0)
    task_count = models.IntegerField(default=0)
    stale = models.BooleanField(default=False)
    fencing = models.BooleanField(default=False)
    unreadable = models.TextField(default="")
    log_level = models.CharField(max_length=8, default="")
    log_level_until_ms = models.BigIntegerField(default=0)
    topic_grant = models.TextField(default="")

    state = models.CharField(max_length=16, default="")
    worker = models.TextField(default="")
    trace = models.TextField(default="")
    version = models.TextField(default="")
    state_generation = models.BigIntegerField(default=-1)
    since_ms = models.BigIntegerField(default=0)

    health = models.CharField(max_length=16, default="UNKNOWN")
    severity = models.SmallIntegerField(default=0)
    health_since_ms = models.BigIntegerField(default=0)
    tasks_running = models.IntegerField(default=0)
    tasks_failed = models.IntegerField(default=0)
    stalled = models.BooleanField(default=False)
    usual_pause = models.IntegerField(default=0)

    rounds_total = models.BigIntegerField(default=0)
    fenced_total = models.BigIntegerField(default=0)
    hanging_ended_total = models.BigIntegerField(default=0)

    records_total = models.BigIntegerField(default=0)
    skipped_total = models.BigIntegerField(default=0)
    dead_letters_total = models.BigIntegerField(default=0)
    aborted_records_total = models.BigIntegerField(default=0)
    last_commit_ms = models.BigIntegerField(default=0)
    trouble = models.CharField(max_length=16, default="")
    trouble_since_ms = models.BigIntegerField(default=0)
    recent_skipped = models.BigIntegerField(default=0)
    recent_dead_letters = models.BigIntegerField(default=0)
    bad_since_ms = models.BigIntegerField(default=0)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["known", "severity", "name"], name="connector_list")]

    @property
    def settings(self) -> dict[str, str]:
        """The configuration as in the config topic, with secrets in plain text. Never show it unmasked.

        Raises `NoKey`.
        """
        return loads_clean(decrypt_text(self.config, f"connector {self.name}"))

    @property
    def path(self) -> str:
        """The name as one segment of a path."""
        return quote(self.name, safe="")


def find_connector(name: str) -> Connector | None:
    """Return a connector's row; None if the config topic does not have it. In SQL, as in `plain_queries`."""
    return next(iter(read(Connector, "name = %s AND known", name)), None)


class Task(models.Model):
    """A task: its config, its newest status, and what it last reported about itself.

    `known`: it belongs to the newest generation. `next_config`: what `config` becomes with the next commit record, ""
    for nothing (`projection.config_rows`). The live numbers are those of `live_attempt` of `live_generation`;
    `recent` is JSON: [second, records of that report] of the last reports, with
    the transactions that ended since the one before, if any, or the time between two attempts
    (`projection.progress_reports`, which also says what `measures` and `totals` hold: the rest of the newest report,
    and counts over all attempts).
    `failure`: the record that caused its failure, encrypted JSON (`record_failure`), "" for none.
    `endpoint`: its address, encrypted in the same way (`projection.endpoints`).
    `retry`: JSON of its `PollRetry` while its source or Kafka refuses, "" for none.
    `incarnation`: of the worker that runs it. `failed_ms`, `failed_trace`, `failed_record`: its last failure in this
    generation, until records have flowed or it has run for a while since (`projection.stalls`).
    `last_answer_ms`: when its source last answered; `data_as_of_ms`: all that the source had then is committed.
    `restarts`: consecutive automatic ones; `next_restart_ms`: the next one's time; `auto_restarts`: all of them.
    """

    connector = models.TextField()
    number = models.IntegerField()
    known = models.BooleanField(default=False)
    config = models.TextField(default="{}")
    next_config = models.TextField(default="")

    state = models.CharField(max_length=16, default="")
    worker = models.TextField(default="")
    trace = models.TextField(default="")
    version = models.TextField(default="")
    generation = models.BigIntegerField(default=-1)
    attempt = models.IntegerField(default=0)
    why = models.TextField(default="")
    since_ms = models.BigIntegerField(default=0)
    restarts = models.IntegerField(default=0)
    next_restart_ms = models.BigIntegerField(default=0)
    auto_restarts = models.BigIntegerField(default=0)
    failure = models.TextField(default="")
    endpoint = models.TextField(default="")
    retry = models.TextField(default="")
    incarnation = models.TextField(default="")
    failed_ms = models.BigIntegerField(default=0)
    failed_trace = models.TextField(default="")
    failed_record = models.TextField(default="")

    live_generation = models.BigIntegerField(default=-1)
    live_attempt = models.IntegerField(default=-1)
    reported_ms = models.BigIntegerField(default=0)
    records = models.BigIntegerField(default=0)
    rate = models.FloatField(default=0)
    bytes = models.BigIntegerField(default=0)
    transactions = models.BigIntegerField(default=0)
    aborted = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)
    open_records = models.BigIntegerField(default=0)
    open_since_ms = models.BigIntegerField(default=0)
    last_poll_ms = models.BigIntegerField(default=0)
    last_commit_ms = models.BigIntegerField(default=0)
    last_answer_ms = models.BigIntegerField(default=0)
    data_as_of_ms = models.BigIntegerField(default=0)
    commit_ms = models.FloatField(default=0)
    producer_id = models.BigIntegerField(default=-1)
    epoch = models.IntegerField(default=-1)
    recent = models.TextField(default="[]")
    measures = models.TextField(default="{}")
    totals = models.TextField(default="{}")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["connector", "number"], name="one_task")]

    @property
    def settings(self) -> dict[str, str]:
        """The task's configuration, with secrets in plain text. Raises `NoKey`."""
        return loads_clean(decrypt_text(self.config, f"task {self.connector}-{self.number}"))

    @property
    def poll_retry(self) -> PollRetry | None:
        """What it reports of a refusing source or Kafka. The cause may name settings: mask it before it is shown."""
        return PollRetry(**json.loads(self.retry)) if self.retry else None

    @property
    def record_failure(self) -> RecordFailure | None:
        """The record that caused its failure, with data of the source. Raises `NoKey`."""
        return self._read_record(self.failure)

    @property
    def last_failed_record(self) -> RecordFailure | None:
        """The record that caused its last failure. Raises `NoKey`."""
        return self._read_record(self.failed_record)

    def _read_record(self, sealed: str) -> RecordFailure | None:
        if not sealed:
            return None
        return failed_record.read(loads_clean(decrypt_text(sealed, f"failure {self.connector}-{self.number}")))


class RecordTotals(models.Model):
    """What a task number of a connector has committed over all attempts, even if there is no such task any more.

    `attempts`: JSON of the newest attempts' counts, {"generation.attempt": {name: count}}: they come from two topics,
    and each record counts once (`projection.record_totals`). `aborted_records`: a lower bound. Kept until the connector
    is deleted.
    """

    connector = models.TextField()
    task = models.IntegerField()
    records = models.BigIntegerField(default=0)
    skipped = models.BigIntegerField(default=0)
    dead_letters = models.BigIntegerField(default=0)
    aborted_records = models.BigIntegerField(default=0)
    last_commit_ms = models.BigIntegerField(default=0)
    attempts = models.TextField(default="{}")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["connector", "task"], name="one_record_totals")]


class Tombstone(models.Model):
    """The newest deletion of a connector in the config topic.

    Another connector of that name has only generations after it. So reports of older ones, which can come late from
    the other topics, are not counted for it.
    """

    connector = models.TextField(primary_key=True)
    config_offset = models.BigIntegerField()
    time_ms = models.BigIntegerField()


class GenerationRow(models.Model):
    """A generation of a connector and its fencing round: `pending`, then the round's stages, then `done`.

    `number`: counted from 1 for users, 0 until the config topic has it; `forced`: a user (`forced_by`) requested the
    fence, and why; `request`: the id of the request that led to it.
    """

    connector = models.TextField()
    generation = models.BigIntegerField()
    tasks = models.IntegerField(default=0)
    config_offset = models.BigIntegerField(default=-1)
    committed_ms = models.BigIntegerField(default=0)
    stage = models.TextField(default="")
    started_ms = models.BigIntegerField(default=0)
    ended_ms = models.BigIntegerField(default=0)
    took_ms = models.BigIntegerField(default=0)
    fenced = models.TextField(default="[]")
    message = models.TextField(default="")
    number = models.IntegerField(default=0)
    forced = models.BooleanField(default=False)
    forced_by = models.TextField(default="")
    forced_why = models.TextField(default="")
    request = models.CharField(max_length=100, default="", db_default="")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["connector", "generation"], name="one_generation")]

    @property
    def fenced_ids(self) -> list[dict[str, Any]]:
        """The transactional ids that the round fenced: {"id", "producer_id", "epoch"}."""
        return cast(list[dict[str, Any]], json.loads(self.fenced))


def partition_key(partition: str) -> str:
    """Return the SHA-256 of a packed source partition, for indexes: PostgreSQL's end with 2,704 bytes."""
    return hashlib.sha256(partition.encode()).hexdigest()


class PartitionKeyField(models.CharField):  # type: ignore[type-arg] # not subscriptable at run time
    """Follows `partition`, whichever way the row is saved."""

    def pre_save(self, model_instance: models.Model, add: bool) -> str:
        return partition_key(cast("SourceOffset", model_instance).partition)


class SourceOffset(models.Model):
    """A committed source offset. `partition` is packed JSON, so equal partitions are equal strings."""

    connector = models.TextField()
    partition = models.TextField()
    partition_key = PartitionKeyField(max_length=64, default="", editable=False)
    offset = models.TextField()
    updated_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["connector", "partition_key"], name="one_source_offset")
        ]


class ActiveTopic(models.Model):
    """A topic that a connector has written to since its last reset (KIP-558). topic_id: "" if it is not known;
    replaced_ms: when it was last noticed that the topic had been deleted and created again; 0 for never.
    """

    connector = models.TextField()
    topic = models.TextField()
    since_ms = models.BigIntegerField(default=0)
    topic_id = models.CharField(max_length=32, default="")
    replaced_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["connector", "topic"], name="one_active_topic")]


class Event(models.Model):
    """An event of a connector ("" for the cluster). `summary` is one line of text."""

    connector = models.TextField(default="")
    task = models.IntegerField(null=True)
    type = models.CharField(max_length=32)
    time_ms = models.BigIntegerField()
    summary = models.TextField(default="")
    body = models.TextField(default="{}")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["connector", "-time_ms"], name="event_list"),
            models.Index(fields=["time_ms"], name="event_age"),
        ]


class Minute(models.Model):
    """What a task did in one minute (minutes since the epoch); written and read by `projection.task_minutes`.

    `state`: the worst in it; `began`: the one in which it began. `fences`: finished rounds; `restarts`: further
    attempts of the same generation; `failed`: how often it failed; `records`: committed ones.
    """

    connector = models.TextField()
    task = models.IntegerField()
    minute = models.BigIntegerField()
    state = models.CharField(max_length=16, default="")
    began = models.CharField(max_length=16, default="")
    records = models.BigIntegerField(default=0)
    commits = models.BigIntegerField(default=0)
    aborted = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)
    skipped = models.BigIntegerField(default=0)
    dead_letters = models.BigIntegerField(default=0)
    fences = models.IntegerField(default=0)
    restarts = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["connector", "minute", "task"], name="one_minute")]
        indexes: ClassVar = [models.Index(fields=["minute"], name="minute_age")]


class HistoryPoint(models.Model):
    """A connector over one minute or one hour (`step`: 1 or 60; `minute`: the first one since the epoch).

    Written and read by `projection.history_points`. Connector "": the platform was running, with the sums of all;
    `minutes`: in how many. Sums are over the whole step; `open_transactions`, `commit_max_ms`, `lag` and `age_ms`, how
    old the data in Kafka was, are maxima; `lag`, `age_ms`: null if the source does not measure it; `lag_name`: the name
    of the metric.
    """

    step = models.SmallIntegerField()
    connector = models.TextField()
    minute = models.BigIntegerField()
    minutes = models.SmallIntegerField(default=1)
    state = models.CharField(max_length=16, default="")
    records = models.BigIntegerField(default=0)
    commits = models.BigIntegerField(default=0)
    aborted = models.BigIntegerField(default=0)
    skipped = models.BigIntegerField(default=0)
    dead_letters = models.BigIntegerField(default=0)
    fences = models.IntegerField(default=0)
    restarts = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    open_transactions = models.IntegerField(default=0)
    commit_sum_ms = models.FloatField(default=0)
    commit_count = models.IntegerField(default=0)
    commit_max_ms = models.FloatField(default=0)
    lag = models.FloatField(null=True)
    lag_name = models.TextField(default="")
    age_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["connector", "step", "minute"], name="one_history_point")
        ]
        indexes: ClassVar = [models.Index(fields=["step", "minute"], name="history_age")]


class LogLine(models.Model):
    """A line that a connector's task logged, or a worker about it. The newest of each connector are kept.

    `severity`: Python's number of the level, so that levels compare; task, generation, attempt: -1 for a worker's.
    request: the id of the request that led to it.
    """

    connector = models.TextField()
    time_ms = models.BigIntegerField()
    level = models.CharField(max_length=8)
    severity = models.SmallIntegerField()
    task = models.IntegerField(default=-1)
    generation = models.BigIntegerField(default=-1)
    attempt = models.IntegerField(default=-1)
    worker = models.TextField(default="")
    logger = models.TextField(default="")
    message = models.TextField(default="")
    request = models.CharField(max_length=100, default="", db_default="")

    class Meta:
        indexes: ClassVar = [models.Index(fields=["connector", "-id"], name="log_list")]
