"""The rows of connectors and their tasks."""

import hashlib
import json
from typing import Any, ClassVar, Final, cast
from urllib.parse import quote

from django.db import models

from ringfence.encryption import decrypt_text
from ringfence.fencing.topics.status import PollRetry, failed_record
from ringfence.fencing.topics.status.failed_record import RecordFailure
from ringfence.projection.clean_text import loads_clean


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
    last hour, since `bad_since_ms` without a pause of an hour (`projection.bad_records`).
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


_FIND: Final = f"SELECT * FROM {Connector._meta.db_table} WHERE name = %s AND known"  # noqa: S608 - of ours


def find_connector(name: str) -> Connector | None:
    """Return a connector's row; None if the config topic does not have it. In SQL, as in `plain_queries`."""
    return next(iter(Connector.objects.raw(_FIND, [name])), None)


class Task(models.Model):
    """A task: its config, its newest status, and what it last reported about itself.

    `known`: it belongs to the newest generation. `next_config`: what `config` becomes with the next commit record, ""
    for nothing (`projection.config_rows`). The live numbers are those of `live_attempt` of `live_generation`;
    `recent` is JSON: [second, records of that report] of the last reports, with
    the transactions that ended since the one before, if any, or the time between two attempts
    (`projection.progress_reports`).
    `measures` (the rest of the newest report) and `totals` (counts over all attempts): see `projection.task_metrics`.
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
