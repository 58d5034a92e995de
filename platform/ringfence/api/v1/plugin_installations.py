"""`/api/v1/plugin-installations`, also for the pages: plugins for all workers, by Maven coordinates, as a Python
package, or as a file in pieces.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import everywhere, somewhere
from ringfence.access.principal import Verb
from ringfence.api.v1.base import ListView, V1View, equal
from ringfence.api.v1.request_fields import IntegerField, RequestShape, StringField
from ringfence.audit.trail import record_change
from ringfence.connectors.plugin_names import FILE_RULE, NAME_RULE, are_coordinates, is_file_name, is_package
from ringfence.fencing.clock import epoch_ms
from ringfence.history.models import PluginInstallation, PluginPiece, WorkerInstallation
from ringfence.history.plugins import find_live, read_pieces, versions_by_worker
from ringfence.http.errors import ConnectError, bad_request, not_found

MOST_BYTES: Final = 512 * 1024 * 1024
MOST_PIECE: Final = 2 * 1024 * 1024
MOST_UNFINISHED: Final = 3
"""The most concurrent uploads. An upload is abandoned an hour after its start."""
_UPLOAD_MS: Final = 3_600_000
_REMEDY: Final = (
    "Set plugin.install.path in a worker's settings to one of the folders in plugin.path, and restart the worker"
)


def begin(plugin: str, user: str, *, size: int = 0, sha256: str = "") -> PluginInstallation:
    """Begin an installation. Workers start it at once for a name, and after the last byte for a file.

    Raises `ConnectError`: 400 for an invalid plugin, 409 if no worker installs plugins or too many uploads are in
    progress.
    """
    if sha256 and not is_file_name(plugin):
        raise bad_request(f"{plugin!r} is not a plugin: {FILE_RULE}.")
    if not sha256 and not (are_coordinates(plugin) or is_package(plugin)):
        raise bad_request(f"{plugin!r} is not a plugin: {NAME_RULE}.")
    if are_workers_starting():
        raise ConnectError(409, "No worker has reported its plugins yet. Try again in a moment.")
    if not takers():
        raise ConnectError(409, f"No worker installs plugins. {_REMEDY}.")
    now_ms = epoch_ms()
    unfinished = PluginInstallation.objects.filter(ready=False)
    unfinished.filter(started_ms__lt=now_ms - _UPLOAD_MS).delete()
    if sha256 and unfinished.count() >= MOST_UNFINISHED:
        raise ConnectError(409, f"{MOST_UNFINISHED} uploads are in progress: finish one, or delete it.")
    return PluginInstallation.objects.create(
        plugin=plugin, size=size, sha256=sha256, ready=not sha256, user=user, started_ms=now_ms
    )


def add_piece(row: PluginInstallation, start: int, data: bytes) -> PluginInstallation:
    """Append the file's bytes from `start` on. Pieces come in order; after the last one, the file is ready for the
    workers.

    Raises `ConnectError`: 409 if `start` is not the end of the last piece, and 400 if the complete file is not the
    announced one, which is then discarded.
    """
    if row.ready:
        raise ConnectError(409, "The upload is complete.")
    if start != row.received:
        raise ConnectError(409, f"The bytes from {row.received} on come next, not those from {start} on.")
    if not data or len(data) > MOST_PIECE or start + len(data) > row.size:
        raise bad_request(
            f"A piece has 1 to {MOST_PIECE:,} bytes, and no more than the {row.size - start:,} that are missing."
        )
    try:
        with transaction.atomic():
            PluginPiece.objects.create(installation=row, start=start, data=data)
            PluginInstallation.objects.filter(pk=row.pk).update(received=start + len(data))
    except IntegrityError:
        raise ConnectError(409, f"The bytes from {start} on have just arrived in another request.") from None
    row.received = start + len(data)
    if row.received == row.size:
        _complete(row)
    return row


def _complete(row: PluginInstallation) -> None:
    digest = hashlib.sha256()
    for piece in read_pieces(row):
        digest.update(piece)
    if digest.hexdigest() != row.sha256:
        row.delete()
        raise bad_request("The bytes do not have the SHA-256 that was announced: nothing is installed. Send it again.")
    PluginInstallation.objects.filter(pk=row.pk).update(ready=True)
    row.ready = True


def find(number: int) -> PluginInstallation:
    """Return the installation. Raises `ConnectError` with 404."""
    row = PluginInstallation.objects.filter(pk=number).first()
    if row is None:
        raise not_found(f"There is no installation {number}: it may have been cancelled.")
    return row


def retry(row: PluginInstallation) -> None:
    """Retry on the workers where it failed."""
    WorkerInstallation.objects.filter(installation=row, state="failed").delete()


def takers() -> list[str]:
    """Return the workers that install plugins."""
    return [row.worker for row in find_live() if row.installs]


def are_workers_starting() -> bool:
    """Return whether no worker has reported its plugins, and whether it installs any, since its start."""
    return not find_live()


def serialize(rows: Iterable[PluginInstallation]) -> list[dict[str, Any]]:
    """Return the installations with their state on each worker. Workers that have not started it are waiting."""
    installers = takers()
    installations = list(rows)
    shares: dict[int, list[WorkerInstallation]] = {}
    ids = [row.pk for row in installations]
    for share in WorkerInstallation.objects.filter(installation__in=ids).order_by("worker"):
        shares.setdefault(share.installation_id, []).append(share)
    return [_serialize(row, shares.get(row.pk, []), installers) for row in installations]


def _serialize(row: PluginInstallation, shares: list[WorkerInstallation], installers: list[str]) -> dict[str, Any]:
    started_workers = {share.worker for share in shares}
    waiting = [_on_worker(name, "waiting") for name in installers if name not in started_workers] if row.ready else []
    workers = [_of_share(share) for share in shares] + waiting
    states = [each["state"] for each in workers]
    if not row.ready:
        state = "receiving"
    elif "waiting" in states or "running" in states:
        state = "running"
    else:
        state = "failed" if "failed" in states else "done"
    return {
        "id": row.pk,
        "plugin": row.plugin,
        "state": state,
        "size": row.size,
        "received": row.received,
        "sha256": row.sha256,
        "user": row.user,
        "started_ms": row.started_ms,
        "workers": workers,
        "differs": len({json.dumps(each["files"], sort_keys=True) for each in workers if each["files"]}) > 1,
    }


def _on_worker(worker: str, state: str) -> dict[str, Any]:
    return {
        "worker": worker,
        "state": state,
        "error": "",
        "folder": "",
        "connectors": {},
        "files": {},
        "ended_ms": None,
    }


def _of_share(share: WorkerInstallation) -> dict[str, Any]:
    report = json.loads(share.report) if share.report else {}
    fields = {"error": share.error, "ended_ms": share.ended_ms or None}
    return {**_on_worker(share.worker, share.state), **fields, **report}


_INSTALLER = everywhere(Verb.INSTALL_PLUGINS)


class OnWorkerShape(serializers.Serializer[Any]):
    """`connectors`: version by class; `files`: SHA-256 of each jar or wheel by name; both are empty
    until it is done.
    """

    worker = serializers.CharField()
    state = serializers.ChoiceField(choices=["waiting", "running", "done", "failed"])
    error = serializers.CharField(allow_blank=True)
    folder = serializers.CharField(allow_blank=True)
    connectors = serializers.DictField(child=serializers.CharField())
    files = serializers.DictField(child=serializers.CharField())
    ended_ms = serializers.IntegerField(allow_null=True)


class InstallationShape(serializers.Serializer[Any]):
    """`differs`: workers have different files. `size`, `received`: bytes of the file, 0 for a name."""

    id = serializers.IntegerField()
    plugin = serializers.CharField()
    state = serializers.ChoiceField(choices=["receiving", "running", "done", "failed"])
    size = serializers.IntegerField()
    received = serializers.IntegerField()
    sha256 = serializers.CharField(allow_blank=True)
    user = serializers.CharField(allow_blank=True)
    started_ms = serializers.IntegerField()
    workers = OnWorkerShape(many=True)
    differs = serializers.BooleanField()


class InstallShape(RequestShape):
    """`plugin`: group:artifact:version (Maven), name==version (Python), or a file's name with its `size`, `sha256`."""

    plugin = StringField(max_length=300)
    size = IntegerField(required=False, min_value=1, max_value=MOST_BYTES)
    sha256 = serializers.RegexField(r"^[0-9a-f]{64}\Z", required=False)


class PieceShape(RequestShape):
    """`content`: at most 2 MiB in Base64, the file's bytes from `start` on."""

    start = IntegerField(min_value=0)
    content = StringField()


class PluginInstallations(ListView):
    """GET: the requested installations, newest first. POST: request another; a file's bytes follow in pieces."""

    access = {"GET": _INSTALLER, "POST": _INSTALLER.writing()}
    shape = InstallationShape
    takes = {"POST": InstallShape}
    codes = {"POST": 201}
    filters = {"plugin": equal("plugin")}
    orders = {"started_ms": "started_ms", "plugin": "plugin"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        return PluginInstallation.objects.all()

    def serialize(self, rows: Any) -> list[dict[str, Any]]:
        return serialize(rows)

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        if ("size" in fields) != ("sha256" in fields):
            raise bad_request("A file needs both its size and its sha256; a name needs neither.")
        row = begin(fields["plugin"], self.user_name, size=fields.get("size", 0), sha256=fields.get("sha256", ""))
        facts = {"plugin": row.plugin, "sha256": row.sha256}
        record_change(self.http_request, before=None, after=facts, action="install plugin")
        return Response(_answer(row), status=201)


class InstallationOf(V1View):
    """DELETE cancels it: workers that join later do not install it. Existing installations stay."""

    access = {"GET": _INSTALLER, "DELETE": _INSTALLER.writing()}
    shape = InstallationShape
    codes = {"DELETE": 204}

    def get(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        return Response(_answer(find(number)))

    def delete(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = find(number)
        facts = {"plugin": row.plugin, "sha256": row.sha256}
        record_change(self.http_request, before=facts, after=None, action="cancel plugin installation")
        row.delete()
        return Response(status=204)


class RetryInstallation(V1View):
    """Retry on the workers where it failed."""

    access = {"POST": _INSTALLER.writing()}
    shape = InstallationShape
    codes = {"POST": 202}

    def post(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = find(number)
        facts = {"plugin": row.plugin, "sha256": row.sha256}
        record_change(self.http_request, before=None, after=facts, action="retry plugin installation")
        retry(row)
        return Response(_answer(row), status=202)


class PluginBytes(V1View):
    """The next piece of a file. After the last one, workers begin to install it.

    It leaves no audit entry: the entry of its beginning contains the file's SHA-256.
    """

    access = {"POST": _INSTALLER}
    shape = InstallationShape
    takes = {"POST": PieceShape}

    def post(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        try:
            data = base64.b64decode(fields["content"], validate=True)
        except (binascii.Error, ValueError):
            raise bad_request("content must be Base64.") from None
        row = add_piece(find(number), fields["start"], data)
        return Response(_answer(row))


class WorkerVersionsShape(serializers.Serializer[Any]):
    """`plugins`: the installed versions of each class, the newest first."""

    worker = serializers.CharField()
    plugins = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))


class PluginVersions(V1View):
    """The plugins of each live worker."""

    access = {"GET": somewhere(Verb.EDIT)}
    shape = WorkerVersionsShape
    several = True

    def get(self, request: Request) -> Response:
        self.parse_parameters()
        versions = versions_by_worker()
        return Response([{"worker": worker, "plugins": plugins} for worker, plugins in versions.items()])


def _answer(row: PluginInstallation) -> dict[str, Any]:
    return serialize([row])[0]
