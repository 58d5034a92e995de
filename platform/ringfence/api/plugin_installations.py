"""Plugin installations on all workers: by Maven coordinates, as a Python package, or as a file in pieces."""

import hashlib
import json
import time
from collections.abc import Iterable
from typing import Any, Final

from django.db import IntegrityError, transaction

from ringfence.connectors.plugin_names import FILE_RULE, NAME_RULE, are_coordinates, is_file_name, is_package
from ringfence.history.models import PluginInstallation, PluginPiece, WorkerInstallation
from ringfence.history.plugins import find_live, read_pieces
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
    now_ms = int(time.time() * 1000)
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
