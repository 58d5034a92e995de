"""What only the database keeps. A rebuilt projection leaves it alone."""

import json
from typing import Any, ClassVar, cast

from django.db import models

from ringfence.encryption import decrypt_text
from ringfence.projection.clean_text import loads_clean


class ConfigVersion(models.Model):
    """A configuration that a connector has had, whoever wrote it: the projector adds one for each change it meets.

    `config`: packed JSON, encrypted. Numbers count from 1 and go on after a deletion.
    `user`: who wrote it, "" where that came by another tool or nobody was logged in.
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
        """Secrets in clear. Never hand it out unmasked. Raises `NoKey`."""
        return loads_clean(decrypt_text(self.config, f"version of {self.connector}"))


class OffsetSnapshot(models.Model):
    """The source offsets of a connector at one moment. `why`: asked for, or taken before a change by hand."""

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
        """{"partition", "offset"} each."""
        return cast(list[dict[str, Any]], json.loads(self.offsets))


class DeletedConnector(models.Model):
    """A connector that is not there any more, whose versions or snapshots are; `time_ms`: when that was noticed."""

    connector = models.TextField(primary_key=True)
    time_ms = models.BigIntegerField()


class ProofRun(models.Model):
    """A count of whether a connector was exactly once (`fencing.proof`). `number`: counts from 1 for each connector.

    `state`: waiting, running, done, failed. A worker writes how far it is (`doing`, `done`, `total`) with `beat_ms`;
    `report`: JSON, `error`: why there is none.
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
    """What a worker told last of a share group, as JSON; key "": of all of them. To be shown while Kafka is away."""

    key = models.TextField(primary_key=True)
    answer = models.TextField()
    time_ms = models.BigIntegerField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["time_ms"], name="share_group_age")]


class RepeatedRequest(models.Model):
    """A request with an Idempotency-Key: what was asked, and the answer; `status` 0 while it is carried out.

    `key`: a digest of who asked and the key; `asked`: a digest of method, path and body.
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
    """A plugin that somebody wants on all workers. Each worker takes it from here, a later one, too.

    plugin: Maven coordinates, or a file's name; `size` and `sha256` are the file's, 0 and "" for coordinates.
    received: so many of the file's bytes are there, as `PluginPiece`s.
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
    """What became of an installation on one worker. state: running, done or failed.

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
    """The plugins that a worker has, as it found them last. plugins: JSON, the versions of each class, newest first.

    installs: whether the worker's settings let it take what people install.
    """

    worker = models.TextField(primary_key=True)
    incarnation = models.TextField()
    plugins = models.TextField(default="{}")
    installs = models.BooleanField(default=False)
    time_ms = models.BigIntegerField()
