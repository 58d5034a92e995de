"""Heartbeats of workers, and how fresh the projection is. All times are by the database's clock, so no two differ."""

from django.db import models


class Heartbeat(models.Model):
    """One worker, as it was when it last wrote. `led_at`: its last beat as the leader, null for never.

    `kafka_error`, `redis_error`: why that does not answer this worker, "" while it does. `ended`: it was stopped, and
    said so.
    """

    worker = models.TextField(primary_key=True)
    incarnation = models.TextField()
    began_at = models.DateTimeField()
    beat_at = models.DateTimeField()
    led_at = models.DateTimeField(null=True)
    kafka_error = models.TextField(default="")
    redis_error = models.TextField(default="")
    ended = models.BooleanField(default=False)


class Freshness(models.Model):
    """One row (id 1): what Kafka's topics held at `as_of` is in the database, all of it."""

    as_of = models.DateTimeField()
