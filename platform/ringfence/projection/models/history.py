"""History: events, minutes, log lines. Old rows are deleted."""

from typing import ClassVar

from django.db import models


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
