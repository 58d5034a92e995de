"""Data that only the database has. Rebuilding the projection leaves it alone."""

import json
from typing import Any, ClassVar, cast

from django.db import models

from ringfence.encryption import decrypt_text
from ringfence.projection.records import loads_clean


class ConfigVersion(models.Model):
    """A configuration that a connector has had. The projector adds one for each change, whoever wrote it.

    config: packed JSON, encrypted. Numbers start at 1, and continue after a deletion.
    user: the author, "" if another tool wrote it or there was no login.
    """

    connector = models.TextField()
    number = models.IntegerField()
    config_offset = models.BigIntegerField()
    time_ms = models.BigIntegerField()
    user = models.TextField(default="")
    config = models.TextField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["connector", "number"], name="one_version")]

    @property
    def settings(self) -> dict[str, str]:
        """The settings with secrets in clear text. Mask them before display. Raises `NoKey`."""
        return loads_clean(decrypt_text(self.config, f"version of {self.connector}"))


class OffsetSnapshot(models.Model):
    """The source offsets of a connector at one moment. why: on request, or before a manual change."""

    connector = models.TextField()
    number = models.IntegerField()
    time_ms = models.BigIntegerField()
    user = models.TextField(default="")
    why = models.TextField(default="")
    offsets = models.TextField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["connector", "number"], name="one_snapshot")]

    @property
    def entries(self) -> list[dict[str, Any]]:
        """A list of {"partition", "offset"}."""
        return cast(list[dict[str, Any]], json.loads(self.offsets))


class DeletedConnector(models.Model):
    """A connector that no longer exists, but has kept versions or snapshots. time_ms: when its deletion was noticed."""

    connector = models.TextField(primary_key=True)
    time_ms = models.BigIntegerField()


class ProofRun(models.Model):
    """A count of whether a connector was exactly once (`fencing.proof`). number: starts at 1 for each connector.

    state: waiting, running, done, failed. A worker writes the progress (doing, done, total) with beat_ms; report: JSON,
    error: why there is none.
    """

    connector = models.TextField()
    number = models.IntegerField()
    state = models.CharField(max_length=8, default="waiting")
    user = models.TextField(default="")
    worker = models.TextField(default="")
    started_ms = models.BigIntegerField()
    beat_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(default=0)
    doing = models.TextField(default="")
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    error = models.TextField(default="")
    report = models.TextField(default="")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["connector", "number"], name="one_proof")]


class ShareGroupAnswer(models.Model):
    """A worker's last report about a share group, as JSON; key "": about all of them. Shown while Kafka is away."""

    key = models.TextField(primary_key=True)
    answer = models.TextField()
    time_ms = models.BigIntegerField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["time_ms"], name="share_group_age")]


class RepeatedRequest(models.Model):
    """A request with an Idempotency-Key, and its answer; status: 0 while it is carried out.

    key: a digest of the sender and the key; asked: a digest of method, path and body.
    """

    key = models.CharField(max_length=64, primary_key=True)
    asked = models.CharField(max_length=64)
    time_ms = models.BigIntegerField()
    status = models.IntegerField(default=0)
    location = models.TextField(default="")
    body = models.TextField(default="")

    class Meta:
        indexes: ClassVar = [models.Index(fields=["time_ms"], name="repeated_age")]


class PluginInstallation(models.Model):
    """A plugin to install on all workers. Each worker fetches it from here, even one that joins later.

    plugin: Maven coordinates, or a file's name; size, sha256: of the file, 0 and "" for coordinates.
    received: how many of the file's bytes are here, as `PluginPiece`s.
    """

    plugin = models.TextField()
    size = models.BigIntegerField(default=0)
    sha256 = models.TextField(default="")
    received = models.BigIntegerField(default=0)
    ready = models.BooleanField(default=False)
    user = models.TextField(default="")
    started_ms = models.BigIntegerField()


class PluginPiece(models.Model):
    """Bytes of an installation's file, from `start` on."""

    installation = models.ForeignKey(PluginInstallation, on_delete=models.CASCADE)
    start = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["installation", "start"], name="one_piece")]


class WorkerInstallation(models.Model):
    """The state of an installation on one worker. state: running, done or failed.

    report: JSON of `folder`, `connectors` (class and version) and `jars` (name and sha256), "" before it is done.
    """

    installation = models.ForeignKey(PluginInstallation, on_delete=models.CASCADE)
    worker = models.TextField()
    state = models.CharField(max_length=8, default="running")
    error = models.TextField(default="")
    report = models.TextField(default="")
    started_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["installation", "worker"], name="one_worker")]


class WorkerPlugins(models.Model):
    """The plugins of a worker, as of its last report. plugins: JSON, the versions of each class, newest first.

    titles: JSON, how the catalog calls a connector, by each of its names. installs: whether the worker's settings allow
    installations.
    """

    worker = models.TextField(primary_key=True)
    incarnation = models.TextField()
    plugins = models.TextField(default="{}")
    titles = models.TextField(default="{}", db_default="{}")
    installs = models.BooleanField(default=False)
    time_ms = models.BigIntegerField()
