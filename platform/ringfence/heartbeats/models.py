"""Heartbeats of workers, and the freshness of the projection. All times come from the same clock, the database's."""

from django.db import models


class Heartbeat(models.Model):
    """The last heartbeat of one worker. led_at: its last beat as the leader, null for never.

    kafka_error, redis_error: why Kafka or Redis does not answer this worker, "" if it does. projection_error: why its
    projector waits, "" if it does not, or if another worker projects. ended: it was stopped in order.
    """

    worker = models.TextField(primary_key=True)
    incarnation = models.TextField()
    began_at = models.DateTimeField()
    beat_at = models.DateTimeField()
    led_at = models.DateTimeField(null=True)
    kafka_error = models.TextField(default="")
    redis_error = models.TextField(default="")
    projection_error = models.TextField(default="")
    ended = models.BooleanField(default=False)


class Freshness(models.Model):
    """A single row (id 1): the database contains everything that Kafka's topics held at `as_of`."""

    as_of = models.DateTimeField()
