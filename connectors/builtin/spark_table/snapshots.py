"""Which files of a folder belong to the table, and which columns of its rows are not in the files: those in the names
of folders, and those that the metadata of a Delta or an Iceberg table have.

Both kinds of metadata are read through the places, as the rows are, so that the worker's rules apply to both: the
formats' own readers open files with credentials and addresses that they find themselves.
"""

import gzip
import io
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

from ringfence.connectors.api import ConnectorError, RetriableError, Schema
from ringfence.connectors.builtin.files.places import FileChanged, FileInfo, Place, require
from ringfence.connectors.builtin.spark_table import settings as names

if TYPE_CHECKING:
    import pyarrow


_NULL = "__HIVE_DEFAULT_PARTITION__"
_HUDI_COLUMN = "_hoodie_commit_time"
"""A column in every file of such a table."""


def folder_values(file: str) -> dict[str, str | None]:
    """Return the columns in the names of folders, as Hive and Spark write them: `day=2026-01-31/part-0.parquet`."""
    values: dict[str, str | None] = {}
    for folder in file.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if name and equals:
            values[unquote(name)] = None if value == _NULL else unquote(value)
    return values


def check_names(files: Sequence[str]) -> None:
    """Raise `ConnectorError` if the files alone do not determine the table's rows, at any depth."""
    for name in files:
        *folders, last = name.split("/")
        if "_delta_log" in folders:
            raise _table_error("a Delta table", "its log determines which of them are valid")
        if folders[-1:] == ["metadata"] and last.endswith(".metadata.json"):
            raise _table_error("an Iceberg table", "its metadata determine which of them are valid")
        if "_temporary" in folders:
            raise ConnectorError(
                "A Spark job is writing this table, or was stopped while it did: there is a folder _temporary. Wait "
                "until the job ends, or delete that folder, and restart the task."
            )


def check_columns(columns: Sequence[str]) -> None:
    """Raise `ConnectorError` for a file of a Hudi table, whose files keep older versions of rows."""
    if _HUDI_COLUMN in columns:
        raise _table_error("a Hudi table", "its timeline determines which of them are valid")


def is_data(name: str) -> bool:
    """Return whether Spark would read the file: no part of its path begins with an underscore, except for a column's
    folder.
    """
    return not any(part.startswith("_") and "=" not in part for part in name.split("/"))


def _table_error(what: str, why: str) -> ConnectorError:
    return ConnectorError(
        f"This folder contains {what}. SparkTableSource reads all Parquet files of a folder, but {why}. Write the "
        "rows to a separate folder with Spark (df.write.parquet), and name that folder."
    )


FileConstants = Mapping[str, Sequence[str | None]]
"""Columns with one value in all rows of a file: by name, Delta's name of the type, and the value as text."""


class Snapshot(ABC):
    """One state of a table. kind: of table, in words."""

    kind: ClassVar[str]
    version: str | None = None
    """The version; None if tables have no versions."""
    files: Sequence[FileInfo]

    @abstractmethod
    def tell_columns(self, file: FileInfo, schema: "pyarrow.Schema") -> FileConstants | None:
        """Return the columns of a file's rows that are not in it; None: those in the names of its folders.

        schema: the file's. Raises `ConnectorError` if its columns are not the table's.
        """


class FolderSnapshot(Snapshot):
    """All files in a folder. Raises `ConnectorError` if the files alone do not determine the rows."""

    kind = "Parquet"

    def __init__(self, files: Sequence[FileInfo]) -> None:
        check_names([file.name for file in files])
        self.files = [file for file in files if is_data(file.name)]

    def tell_columns(self, file: FileInfo, schema: "pyarrow.Schema") -> FileConstants | None:
        return None


MOST_BYTES: Final = 256 << 20
"""Of one file of a table's metadata, after decompression."""


def check_size(file: FileInfo, size: int) -> None:
    """Raise `ConnectorError` if a file of the metadata is larger than `MOST_BYTES`."""
    if size > MOST_BYTES:
        raise ConnectorError(
            f"File {file.name} of the table's metadata is larger than {MOST_BYTES >> 20} MB. Write a checkpoint, or "
            "expire snapshots."
        )


@contextmanager
def metadata_errors(kind: str) -> Iterator[None]:
    """Translate what broken or hostile metadata make the parsers raise to `ConnectorError`, which quotes none of it."""
    import pyarrow

    broken = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, RecursionError, zlib.error)
    try:
        yield
    except (*broken, pyarrow.ArrowException) as error:
        raise ConnectorError(
            f"The metadata of the {kind} table cannot be read ({type(error).__name__}). Check that another program did "
            "not change them, and restart the task."
        ) from error


def read_whole(place: Place, file: FileInfo) -> bytes:
    """Return the content of a small file. Raises `RetriableError` if it has changed since it was listed, and
    `ConnectorError` if it is larger than `MOST_BYTES`.
    """
    try:
        with closing(place.open(file)) as opened:
            content: bytes = opened.stream.read(MOST_BYTES + 1)
            opened.check()
            check_size(file, len(content))
            return content
    except FileChanged as error:
        raise RetriableError(f"File {file.name} was changed or deleted while the plan was made.") from error


_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(-?\d+)\)")


def find_type(name: str) -> "pyarrow.DataType | None":
    """Return Arrow's type for one of Delta's; None for nested and unknown ones."""
    import pyarrow as pa

    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    types = {
        "string": pa.string(),
        "long": pa.int64(),
        "integer": pa.int32(),
        "short": pa.int16(),
        "byte": pa.int8(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "binary": pa.binary(),
    }
    return types.get(name)


def make_column(name: str, type: str, text: str | None, rows: int) -> tuple[Schema, Sequence[object]]:
    """Return a constant column of `rows` rows, as a Parquet file with this type would have it. Raises
    `ConnectorError`.
    """
    import pyarrow as pa

    from ringfence.connectors.builtin.files.formats.arrow_types import to_connect

    arrow = find_type(type)
    try:
        if arrow is None:
            raise pa.ArrowInvalid(f"{type} is not supported")
        value: Any = pa.array([text], pa.string()).cast(arrow)
    except pa.ArrowInvalid as error:
        raise ConnectorError(f"The column {name} has the value {text!r}, which is not a {type}: {error}.") from error
    schema, convert = to_connect(arrow, name)
    return schema, convert(value) * rows


DELTA_LOG: Final = "_delta_log/"
_COMMIT: Final = re.compile(re.escape(DELTA_LOG) + r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(re.escape(DELTA_LOG) + r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_FEATURES: Final = {"columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck"}
"""Features that change nothing unless they are used; their use is refused."""

Action = Mapping[str, Any]


class DeltaSnapshot(Snapshot):
    """One version, read from its log (https://github.com/delta-io/delta/blob/master/PROTOCOL.md).

    Raises `ConnectorError` for tables with unsupported features, `RetriableError`, OSError.
    """

    kind = "Delta"

    def __init__(self, place: Place, files: Sequence[FileInfo], version: str | None) -> None:
        """version: a version; None: the newest."""
        with metadata_errors("Delta"):
            self._read(place, files, version)

    def _read(self, place: Place, files: Sequence[FileInfo], version: str | None) -> None:
        log = _Log(place, files, version)
        self.version = str(log.version)
        self._metadata: Action = {}
        protocol: Action = {}
        adds: dict[str, Action] = {}
        for commit in log.read():
            # A file may be removed and added again with other deletion vectors, in any order.
            for action in sorted(commit, key=lambda action: bool(action.get("add"))):
                protocol = action.get("protocol") or protocol
                self._metadata = action.get("metaData") or self._metadata
                if remove := action.get("remove"):
                    adds.pop(_name_of(remove), None)
                if add := action.get("add"):
                    adds[_name_of(add)] = add
        _check_protocol(protocol)
        _check_metadata(self._metadata)
        by_name = {file.name: file for file in files}
        for name, add in adds.items():
            if add.get("deletionVector"):
                raise _delta_refusal("deletion vectors, which exclude rows of files", "REORG TABLE … APPLY (PURGE)")
            if name not in by_name:
                raise ConnectorError(
                    f"File {name} of version {self.version} of the Delta table is missing, perhaps because of VACUUM. "
                    "Set a newer version, or none, and restart the task."
                )
        self._adds = adds
        self.files = [by_name[name] for name in sorted(adds)]

    def tell_columns(self, file: FileInfo, schema: "pyarrow.Schema") -> FileConstants:
        """Return the partition columns, and columns that were added to the table after the file was written: these are
        null.
        """
        values = dict(self._adds[file.name].get("partitionValues") or {})
        inside = set(schema.names)
        constants: dict[str, Sequence[str | None]] = {}
        for field in json.loads(self._metadata["schemaString"])["fields"]:
            name, type = field["name"], field["type"]
            if name in inside:
                continue
            if not isinstance(type, str) or find_type(type) is None:
                raise ConnectorError(
                    f"File {file.name} of the Delta table lacks the column {name}, whose type is not a simple one. "
                    "Rewrite the table with Spark (INSERT OVERWRITE), or read an older version."
                )
            constants[name] = [type, _check_value(name, type, values.get(name) or None)]
        return constants


class _Log:
    """The commits and checkpoints up to a version."""

    def __init__(self, place: Place, listing: Sequence[FileInfo], target: str | None) -> None:
        self._place = place
        self._commits: dict[int, FileInfo] = {}
        parts: dict[tuple[int, int], list[FileInfo]] = {}
        for file in listing:
            if match := _COMMIT.fullmatch(file.name):
                self._commits[int(match[1])] = file
            elif match := _CHECKPOINT.fullmatch(file.name):
                parts.setdefault((int(match[1]), int(match[2] or 1)), []).append(file)
        self._checkpoints = {
            version: sorted(files) for (version, count), files in sorted(parts.items()) if len(files) == count
        }
        newest = max([*self._commits, *self._checkpoints], default=-1)
        if target is not None and not target.isdecimal():
            raise ConnectorError(f"The version {target!r} of a Delta table is not a number.")
        self.version = newest if target is None else int(target)
        if not 0 <= self.version <= newest:
            raise ConnectorError(f"The Delta table has no version {self.version}: the newest is {newest}.")

    def read(self) -> Iterator[Sequence[Action]]:
        """Yield the actions that make this version, oldest first: those of a checkpoint's files, then those of each
        commit.
        """
        start = max((version for version in self._checkpoints if version <= self.version), default=-1)
        for file in self._checkpoints.get(start, ()):
            yield [*self._read_checkpoint(file)]
        for version in range(start + 1, self.version + 1):
            if version not in self._commits:
                raise ConnectorError(
                    f"The log of the Delta table has no commit {version} and no checkpoint that includes it, so "
                    f"version {self.version} cannot be read. Set a newer version, or none, and restart the task."
                )
            lines = read_whole(self._place, self._commits[version]).splitlines()
            yield [json.loads(line) for line in lines if line.strip()]

    def _read_checkpoint(self, file: FileInfo) -> Iterator[Action]:
        import pyarrow.parquet

        content = pyarrow.parquet.ParquetFile(io.BytesIO(read_whole(self._place, file)))
        names_to_read = {"protocol", "metaData", "add"}
        for batch in content.iter_batches(10_000):
            for row in batch.select([name for name in batch.schema.names if name in names_to_read]).to_pylist():
                add = row.get("add")
                if add and add.get("partitionValues") is not None:
                    add["partitionValues"] = dict(add["partitionValues"])
                metadata = row.get("metaData")
                if metadata and metadata.get("configuration") is not None:
                    metadata["configuration"] = dict(metadata["configuration"])
                yield row


def _name_of(action: Action) -> str:
    path = str(action["path"])
    if "://" in path or path.startswith("/"):
        raise _delta_refusal("files outside its folder, as shallow clones have", "CREATE TABLE … DEEP CLONE")
    return unquote(path)


def _check_protocol(protocol: Action) -> None:
    features = set(protocol.get("readerFeatures") or ())
    if not protocol:
        raise ConnectorError("The log of the Delta table does not contain its protocol: it is incomplete.")
    if protocol["minReaderVersion"] > 3 or (unknown := sorted(features - _FEATURES)):
        what = ", ".join(unknown) if protocol["minReaderVersion"] <= 3 else "a later protocol"
        raise _delta_refusal(f"unsupported features ({what})", "ALTER TABLE … DROP FEATURE")


def _check_metadata(metadata: Action) -> None:
    if not metadata:
        raise ConnectorError("The log of the Delta table does not contain its columns: it is incomplete.")
    if (metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none") != "none":
        raise _delta_refusal(
            "column mapping, with other column names in its files",
            "ALTER TABLE … SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
        )


def _check_value(name: str, type: str, text: str | None) -> str | None:
    if type == "timestamp" and text is not None and not text.endswith("Z"):
        raise ConnectorError(
            f"The partition column {name} of the Delta table has the time {text}, and its log does not contain the "
            "time zone. Write the table without that partition column."
        )
    return text


def _delta_refusal(what: str, remedy: str) -> ConnectorError:
    return ConnectorError(
        f"The Delta table has {what}. Remove that with {remedy}, or write the rows to a separate folder with Spark "
        "(df.write.parquet), and name that folder."
    )


_METADATA_FILE: Final = re.compile(r"metadata/(?:v(\d+)|\d+-[0-9a-f-]+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_ID: Final = b"PARQUET:field_id"
_DELTA_NAMES: Final = {"int": "integer", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
_ARROW_NAMES: Final = {"int": "int32", "long": "int64", "float": "float", "double": "double"}
_DELETED: Final = 2

Json = Mapping[str, Any]


def is_iceberg(files: Sequence[FileInfo]) -> bool:
    """Return whether a folder contains an Iceberg table."""
    return any(_METADATA_FILE.fullmatch(file.name) for file in files)


class IcebergSnapshot(Snapshot):
    """One snapshot, read from the table's metadata (https://iceberg.apache.org/spec/).

    Only files with the table's columns are accepted; columns that were added later may be missing. No catalog is used:
    the current metadata file follows from the file names of tables without a catalog, and otherwise from a setting.
    Raises `ConnectorError` for tables with unsupported features, `RetriableError`, OSError.
    """

    kind = "Iceberg"

    def __init__(self, place: Place, files: Sequence[FileInfo], version: str | None, metadata: str | None) -> None:
        """version: the id of a snapshot; None: the current one. metadata: the name of the current metadata file."""
        require("fastavro", "Iceberg tables")
        with metadata_errors("Iceberg"):
            self._read(place, files, version, metadata)

    def _read(self, place: Place, files: Sequence[FileInfo], version: str | None, metadata: str | None) -> None:
        self._place = place
        self._files = {file.name: file for file in files}
        table = self._read_metadata(files, metadata)
        if table["format-version"] not in (1, 2):
            raise _iceberg_refusal(f"the format version {table['format-version']}, but only 1 and 2 are supported")
        self._location = str(table["location"]).rstrip("/") + "/"
        snapshot = _find_snapshot(table, version)
        self.version = str(snapshot["snapshot-id"])
        schema = snapshot.get("schema-id") if version else None
        self._fields = _find_fields(table, table.get("current-schema-id") if schema is None else schema)
        if "manifest-list" not in snapshot:
            raise _iceberg_refusal("a snapshot without a manifest list")
        self.files = sorted(self._read_files(snapshot["manifest-list"]))

    def tell_columns(self, file: FileInfo, schema: "pyarrow.Schema") -> FileConstants:
        """Return the columns that were added to the table after the file was written: these are null."""
        inside = {int(field.metadata[_ID]): field for field in schema if field.metadata and _ID in field.metadata}
        if len(inside) != len(schema):
            raise _old_file(file, "has columns without ids")
        constants: dict[str, Sequence[str | None]] = {}
        for field in self._fields:
            column = inside.pop(field["id"], None)
            if column is None:
                type = _DELTA_NAMES.get(str(field["type"]), str(field["type"]))
                if field["required"] or not isinstance(field["type"], str) or find_type(type) is None:
                    raise _old_file(file, f"lacks the column {field['name']}")
                constants[field["name"]] = [type, None]
            elif column.name != field["name"] or not _is_same(column.type, field["type"]):
                raise _old_file(file, f"has another name or type for the column {field['name']}")
        if inside:
            raise _old_file(file, f"has a column {next(iter(inside.values())).name} that was dropped from the table")
        return constants

    def _read_metadata(self, files: Sequence[FileInfo], pointer: str | None) -> Json:
        matches = {file.name: _METADATA_FILE.fullmatch(file.name) for file in files}
        numbers = {name: match[1] for name, match in matches.items() if match}
        if pointer is not None:
            name = f"metadata/{pointer.rpartition('/')[2]}"
            if name not in numbers:
                raise ConnectorError(f"{names.METADATA}: the table has no file {name}.")
        elif any(number is None for number in numbers.values()):
            raise ConnectorError(
                f"Only its catalog knows the current metadata file of this Iceberg table. Set {names.METADATA} to its "
                "name; Spark shows it in the table's metadata_log_entries."
            )
        else:
            name = max(numbers, key=lambda each: int(numbers[each]))
        content = read_whole(self._place, self._files[name])
        if ".gz" in name:
            with gzip.open(io.BytesIO(content)) as stream:
                content = stream.read(MOST_BYTES + 1)
            check_size(self._files[name], len(content))
        table: Json = json.loads(content)
        return table

    def _read_files(self, manifests: str) -> Iterator[FileInfo]:
        for manifest in self._read_avro(manifests):
            rows = self._read_avro(manifest["manifest_path"])
            for row in (each for each in rows if each["status"] != _DELETED):
                file = row["data_file"]
                if manifest.get("content") or file.get("content"):
                    raise _iceberg_refusal(
                        "rows that delete files exclude",
                        "CALL system.rewrite_data_files with delete-file-threshold=1",
                    )
                if file["file_format"].upper() != "PARQUET":
                    raise _iceberg_refusal(f"{file['file_format']} files, but only Parquet is supported")
                yield self._find(file["file_path"])

    def _read_avro(self, path: str) -> Iterator[Json]:
        from ringfence.connectors.sdk.avro.container import open_blocks

        _, blocks = open_blocks(io.BytesIO(read_whole(self._place, self._find(path))))
        return (record for _, records in blocks for record in records)

    def _find(self, path: str) -> FileInfo:
        if not path.startswith(self._location):
            raise _iceberg_refusal("files outside its folder")
        name = path.removeprefix(self._location)
        if name not in self._files:
            raise ConnectorError(
                f"File {name} of snapshot {self.version} of the Iceberg table is missing, perhaps because snapshots "
                f"were expired. Set a newer snapshot, or set {names.METADATA} to the current file, and restart the "
                "task."
            )
        return self._files[name]


def _find_snapshot(table: Json, version: str | None) -> Json:
    snapshot_id = str(table.get("current-snapshot-id") if version is None else version)
    for snapshot in table.get("snapshots") or ():
        if str(snapshot["snapshot-id"]) == snapshot_id:
            snapshot_found: Json = snapshot
            return snapshot_found
    if version is None:
        raise ConnectorError("The Iceberg table has no snapshot yet. Write to it, then restart the task.")
    raise ConnectorError(f"{names.VERSION}: the Iceberg table has no snapshot {version}, or it has expired.")


def _find_fields(table: Json, schema: int | None) -> Sequence[Json]:
    schemas = table.get("schemas") or [table["schema"]]
    fields: Sequence[Json] = next((each for each in schemas if each.get("schema-id") == schema), schemas[-1])["fields"]
    return fields


def _is_same(arrow: "pyarrow.DataType", type: str | Json) -> bool:
    """Return whether a file's column has the table's type, with the same ids and names of all inner fields."""
    import pyarrow as pa

    if isinstance(type, str):
        if pa.types.is_nested(arrow):
            return False
        if type.startswith("decimal"):
            return str(arrow) == type.replace("decimal", "decimal128")
        return type not in _ARROW_NAMES or str(arrow) == _ARROW_NAMES[type]
    if type["type"] == "struct" and pa.types.is_struct(arrow):
        inside = {int(field.metadata[_ID]): field for field in arrow}
        return inside.keys() == {each["id"] for each in type["fields"]} and all(
            inside[each["id"]].name == each["name"] and _is_same(inside[each["id"]].type, each["type"])
            for each in type["fields"]
        )
    if type["type"] == "list" and (pa.types.is_list(arrow) or pa.types.is_large_list(arrow)):
        return _is_same(arrow.value_type, type["element"])
    if type["type"] == "map" and pa.types.is_map(arrow):
        return _is_same(arrow.key_type, type["key"]) and _is_same(arrow.item_type, type["value"])
    return False


def _iceberg_refusal(what: str, remedy: str = "") -> ConnectorError:
    end = f"Remove that with {remedy}, or write" if remedy else "Write"
    return ConnectorError(
        f"The Iceberg table has {what}. {end} the rows to a separate folder with Spark (df.write.parquet), and name "
        "that folder."
    )


def _old_file(file: FileInfo, what: str) -> ConnectorError:
    return ConnectorError(
        f"File {file.name} of the Iceberg table {what}: it was written before the table's columns changed. Rewrite it "
        "with Spark (CALL system.rewrite_data_files with rewrite-all=true), and restart the task."
    )
