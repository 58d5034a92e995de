"""FilesSource: the rows of many files, each file once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import ClassVar, Final

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    ConfigDef,
    ConfigException,
    ConnectorError,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    Guarantee,
    ParsedConfig,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.files import settings as names
from ringfence.connectors.builtin.files.backlog import BUCKETS
from ringfence.connectors.builtin.files.formats import FORMATS
from ringfence.connectors.builtin.files.offsets import parse
from ringfence.connectors.builtin.files.places import PLACES, Place, open_place, require

CONFIG_DEF: Final = names.define(tuple(FORMATS))
for _place in PLACES.values():
    _place.define(CONFIG_DEF)


class FilesSourceConnector(SourceConnector):
    """Files are dealt to up to `tasks.max` tasks by their names. Each task reads one file after another."""

    version: ClassVar[str] = "1.0.0"
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="Files of a folder, S3, Google Cloud, Azure or SFTP",
        summary="Rows of text, CSV, JSON lines, Parquet and Avro files, from a folder, a bucket or an SFTP server.",
        category=Category.FILES,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=(
            "Files that are complete when they appear: renamed into place, or objects of S3, Google Cloud or Azure.",
            "For Parquet, Avro, S3 and SFTP: pip install 'ringfence[files]' where the tasks run; 'ringfence[gcs]' for "
            "Google Cloud, 'ringfence[azure]' for Azure.",
        ),
        sample={"tasks.max": "2", "url": "file:///data/in", "format": "csv", "topic": "rows"},
    )

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG_DEF

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        from ringfence.connectors.builtin.files.task import FilesSourceTask

        return FilesSourceTask

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, BUCKETS)
        config = dict(self._config)
        if self.context.trial:
            config |= {names.SETTLE: "0", names.AFTER: names.KEEP}  # a preview shows what is there, and moves nothing
        return [{**config, names.SHARE: f"{index}/{count}"} for index in range(count)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        try:
            parsed = CONFIG_DEF.parse(config)
        except ConfigException:
            return {}  # the definition has said so already
        errors: dict[str, list[str]] = {}
        name = parsed.string(names.FORMAT)
        try:
            require(FORMATS[name].module, f"Files of the format {name}")
        except ConnectorError as error:
            errors[names.FORMAT] = [str(error)]
        for setting, problem in _find_problems(parsed):
            errors.setdefault(setting, []).append(problem)
        return errors

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported: the content of a file does not change while it is read, or the task sees it."""
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """A transaction a file."""
        return ConnectorTransactionBoundaries.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Any offset may be deleted; a new one needs a file's address, an ETag and a position."""
        for partition, offset in offsets:
            if not isinstance(partition.get(names.URL_KEY), str):
                raise ConnectorError(f"The partition {dict(partition)} must name a file under {names.URL_KEY!r}.")
            if offset is not None and names.BUCKET_KEY not in partition:
                parse(offset)
        return True


def _find_problems(parsed: ParsedConfig) -> list[tuple[str, str]]:
    """By setting: what is wrong with the places, and with settings that contradict each other."""
    found: list[tuple[str, str]] = []
    after, target = parsed.string(names.AFTER), str(parsed.get(names.MOVE_TO) or "").strip()
    if after == names.MOVE and not target:
        found.append((names.MOVE_TO, f"Set the folder that files are moved to, or another {names.AFTER}."))
    if parsed.integer(names.LOOKBACK):
        if parsed.string(names.ORDER) != names.NAME:
            found.append((names.LOOKBACK, f"Needs {names.ORDER}={names.NAME}: names say which files were before."))
        if after != names.KEEP:
            found.append((names.LOOKBACK, f"Not needed with {names.AFTER}={after}, which forgets files by itself."))
    for kind in PLACES.values():
        found += kind.find_problems(parsed)
    try:
        with closing(open_place(parsed.string(names.URL), parsed)) as place:
            place.check()
            found += _find_problems_of(place, parsed, target)
    except (ConnectorError, OSError) as error:
        found.append((names.URL, str(error)))
    return found


def _find_problems_of(place: Place, parsed: ParsedConfig, target: str) -> Iterator[tuple[str, str]]:
    """What does not fit this place. Raises `ConnectorError` where files may not be deleted from it."""
    after = parsed.string(names.AFTER)
    if parsed.integer(names.SETTLE) < place.least_settle_ms:
        yield (
            names.SETTLE,
            (f"Must be at least {place.least_settle_ms} for {place.scheme}:// addresses: times are coarse there."),
        )
    if after != names.KEEP:
        place.check_writable()
    if after == names.MOVE and target:
        try:
            with closing(open_place(target, parsed)) as moved:
                if type(moved) is not type(place):
                    yield names.MOVE_TO, f"Must begin with {place.scheme}:// as {names.URL} does."
                elif f"{moved.address}/".startswith(f"{place.address}/"):
                    yield names.MOVE_TO, f"Must not be inside of {place.address}: files would be read again."
                else:
                    place.check_target(target)
                    moved.check_writable()
        except (ConnectorError, OSError) as error:
            yield names.MOVE_TO, str(error)
