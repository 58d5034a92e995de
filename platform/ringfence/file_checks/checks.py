"""Checks files: each one's reports, in the light of the workers that would run the connectors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ringfence.connectors.plugins import PluginRegistry
from ringfence.connectors.sdk import worker_limits
from ringfence.fencing.draft_names import with_final_names
from ringfence.fencing.modes import MODE_KEY, Mode
from ringfence.file_checks.connector_configs import check_connector
from ringfence.file_checks.documents import Document, What, read
from ringfence.file_checks.finding import Report
from ringfence.file_checks.mirror_maker import check_mirror_maker
from ringfence.file_checks.worker_files import check_worker
from ringfence.local.errors import LocalError
from ringfence.worker_config import WorkerConfig

_UNKNOWN_WORKER: Final = {MODE_KEY: Mode.ENABLED.value}
"""Of workers of which nothing is known."""


def check_files(paths: Sequence[Path], worker_file: Path | None) -> Iterator[tuple[Path, list[Report] | LocalError]]:
    """Yield the reports of each file, one for each connector in it, or why it cannot be read.

    worker_file: that of the workers; None for the first worker's file among the paths. Raises `LocalError` if
    it is not one.
    """
    documents = {path: _read(path) for path in paths}
    worker = WorkerConfig.of_settings(with_final_names(_worker_settings(documents.values(), worker_file)))
    worker_limits.declare(worker_limits.of_settings(worker.settings))
    registry = PluginRegistry.discover()
    for path, content in documents.items():
        yield path, content if isinstance(content, LocalError) else [_check(one, registry, worker) for one in content]


def _read(path: Path) -> list[Document] | LocalError:
    try:
        return read(path)
    except LocalError as error:
        return error


def _worker_settings(documents: Iterable[list[Document] | LocalError], worker_file: Path | None) -> Mapping[str, str]:
    files = [read(worker_file)] if worker_file is not None else [each for each in documents if isinstance(each, list)]
    workers = [document.settings for each in files for document in each if document.what is What.WORKER]
    if worker_file is not None and not workers:
        raise LocalError(f"{worker_file} is not a worker's file: name one with --config")
    return workers[0] if workers else _UNKNOWN_WORKER


def _check(document: Document, registry: PluginRegistry, worker: WorkerConfig) -> Report:
    match document.what:
        case What.WORKER:
            return check_worker(document.settings)
        case What.MIRROR_MAKER:
            return check_mirror_maker(document.settings)
        case What.CONNECTOR:
            return check_connector(document.settings, registry, worker)
