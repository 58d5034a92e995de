"""FilesSource: the rows of many files, each file once."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import PurePath
from typing import ClassVar, Final

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    ConfigDef,
    ConfigException,
    ConnectorError,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    ParsedConfig,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.files import settings as names
from ringfence.connectors.builtin.files.places import PLACES, Place, list_place_settings, open_place, require
from ringfence.connectors.builtin.files.reading import BUCKETS, FORMATS, parse
from ringfence.connectors.sdk.diagnosis import diagnose, summarise

CONFIG_DEF: Final = ConfigDef([*names.OWN.keys.values(), *list_place_settings()])
_PLACE_SETTINGS: Final = frozenset(key.name for key in list_place_settings())
_LOOKED_AT: Final = 1000
_COMPRESSED: Final = frozenset({".gz", ".bz2", ".xz", ".zst", ".zip"})
_BY_ENDING: Final = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "text",
    ".log": "text",
    ".parquet": "parquet",
    ".avro": "avro",
}


class FilesSourceConnector(SourceConnector):
    """Files are distributed to up to `tasks.max` tasks by their names. Each task reads one file after another."""

    version: ClassVar[str] = "1.0.0"
    reads_offsets = False
    own_settings = CONFIG_DEF
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="Files of a folder, S3, Google Cloud, Azure or SFTP",
        summary="Rows of text, CSV, JSON lines, Parquet and Avro files, from a folder, a bucket or an SFTP server.",
        category=Category.FILES,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=(
            "Files that are complete when they appear: renamed into place, or objects of S3, Google Cloud or Azure.",
            "For Parquet, Avro, .zst files, S3 and SFTP: pip install 'ringfence[files]' where the tasks run; "
            "'ringfence[gcs]' for Google Cloud, 'ringfence[azure]' for Azure.",
        ),
        sample={"tasks.max": "2", "url": "file:///data/in", "format": "csv", "topic": "rows"},
        icon="folder-open",
        keywords=("bucket", "directory", "gcs", "json lines", "ndjson"),
        selects=(names.FORMAT, names.PATTERN, names.CSV_DELIMITER, names.CSV_HEADER),
    )

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        from ringfence.connectors.builtin.files.task import FilesSourceTask

        return FilesSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, BUCKETS)
        config = dict(self.config)
        if self.context.trial:
            config |= {names.SETTLE: "0", names.AFTER: names.KEEP}  # a preview shows what exists, and moves nothing
        return [{**config, names.SHARE: f"{index}/{count}"} for index in range(count)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        try:
            settings = CONFIG_DEF.parse(config)
        except ConfigException:
            return {}  # the definition has already reported it
        errors: dict[str, list[str]] = {}
        name = settings.string(names.FORMAT)
        try:
            require(FORMATS[name].module, f"Files of the format {name}")
        except ConnectorError as error:
            errors[names.FORMAT] = [str(error)]
        for setting, problem in _find_problems(settings):
            errors.setdefault(setting, []).append(problem)
        return errors

    def examine(self, config: Mapping[str, str]) -> Examination:
        """List the first files, and propose their format."""
        if not config.get(names.URL, "").strip():
            return Examination({names.URL: ["Say where the files are."]})
        own = {name: value for name, value in config.items() if name == names.URL or name in _PLACE_SETTINGS}
        try:
            settings = CONFIG_DEF.parse({names.TOPIC: "t", names.FORMAT: next(iter(FORMATS)), **own})
            with closing(open_place(settings.string(names.URL), settings)) as place:
                place.check()
                files = [each.name for each in islice(place.list(), _LOOKED_AT)]
        except (ConfigException, ConnectorError) as error:
            return Examination({names.URL: [str(error)]})
        except OSError as error:
            diagnosis = diagnose(error, config[names.URL].strip())
            return Examination({names.URL: [diagnosis.text if diagnosis else str(error)]})
        return Examination(summary=_describe_files(files), proposals=_propose_format(files))

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported: a file's content does not change while it is read, or the task notices."""
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Each file can be a transaction."""
        return ConnectorTransactionBoundaries.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one needs a file's URL, an ETag and a position."""
        for partition, offset in offsets:
            if not isinstance(partition.get(names.URL_KEY), str):
                raise ConnectorError(f"The partition {dict(partition)} must name a file under {names.URL_KEY!r}.")
            if offset is not None and names.BUCKET_KEY not in partition:
                parse(offset)
        return True


def _describe_files(files: Sequence[str]) -> str:
    if not files:
        return "The folder is empty now."
    return f"{summarise('file', files, more=len(files) == _LOOKED_AT)}."


def _propose_format(files: Sequence[str]) -> dict[str, str]:
    """Return the format by the commonest ending."""
    endings = [PurePath(name.lower()) for name in files]
    plain = [each.with_suffix("") if each.suffix in _COMPRESSED else each for each in endings]
    counted = Counter(_BY_ENDING[each.suffix] for each in plain if each.suffix in _BY_ENDING)
    return {names.FORMAT: counted.most_common(1)[0][0]} if counted else {}


def _find_problems(settings: ParsedConfig) -> list[tuple[str, str]]:
    """Find what is wrong with the folders, and settings that contradict each other. Returns (setting, error) pairs."""
    problems: list[tuple[str, str]] = []
    after, target = settings.string(names.AFTER), str(settings.get(names.MOVE_TO) or "").strip()
    if after == names.MOVE and not target:
        problems.append((names.MOVE_TO, f"Set the folder to move files to, or choose another {names.AFTER}."))
    if settings.integer(names.LOOKBACK):
        if settings.string(names.ORDER) != names.NAME:
            problems.append(
                (
                    names.LOOKBACK,
                    f"Needs {names.ORDER}={names.NAME}: only then does a name show which files came before.",
                )
            )
        if after != names.KEEP:
            problems.append((names.LOOKBACK, f"Not needed with {names.AFTER}={after}, which forgets files anyway."))
    for kind in PLACES.values():
        problems += kind.find_problems(settings)
    try:
        with closing(open_place(settings.string(names.URL), settings)) as place:
            place.check()
            problems += _find_problems_of(place, settings, target)
    except (ConnectorError, OSError) as error:
        problems.append((names.URL, str(error)))
    return problems


def _find_problems_of(place: Place, settings: ParsedConfig, target: str) -> Iterator[tuple[str, str]]:
    """Find what does not fit this place. Raises `ConnectorError` if files must not be deleted from it."""
    after = settings.string(names.AFTER)
    if settings.integer(names.SETTLE) < place.least_settle_ms:
        yield (
            names.SETTLE,
            (f"Must be at least {place.least_settle_ms} for {place.scheme}:// addresses: their file times are coarse."),
        )
    if after != names.KEEP:
        place.check_writable()
    if after == names.MOVE and target:
        try:
            with closing(open_place(target, settings)) as moved:
                if type(moved) is not type(place):
                    yield names.MOVE_TO, f"Must begin with {place.scheme}://, like {names.URL}."
                elif f"{moved.address}/".startswith(f"{place.address}/"):
                    yield names.MOVE_TO, f"Must not be inside {place.address}: files would be read again."
                else:
                    place.check_target(target)
                    moved.check_writable()
        except (ConnectorError, OSError) as error:
            yield names.MOVE_TO, str(error)
