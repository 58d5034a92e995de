"""A snapshot of an Iceberg table, read from its metadata (https://iceberg.apache.org/spec/), through the places like
its rows.

Only files with the table's columns are accepted; columns that were added later may be missing. No catalog is used: the
current metadata file follows from the file names of tables without a catalog, and otherwise from a setting.
"""

import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.files.places import FileInfo, Place, require
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.snapshots import (
    MOST_BYTES,
    FileConstants,
    Snapshot,
    check_size,
    find_type,
    metadata_errors,
    read_whole,
)

if TYPE_CHECKING:
    import pyarrow

_FILE: Final = re.compile(r"metadata/(?:v(\d+)|\d+-[0-9a-f-]+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_ID: Final = b"PARQUET:field_id"
_DELTA_NAMES: Final = {"int": "integer", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
_ARROW_NAMES: Final = {"int": "int32", "long": "int64", "float": "float", "double": "double"}
_DELETED: Final = 2

Json = Mapping[str, Any]


def is_iceberg(files: Sequence[FileInfo]) -> bool:
    """Return whether a folder contains an Iceberg table."""
    return any(_FILE.fullmatch(file.name) for file in files)


class IcebergSnapshot(Snapshot):
    """One snapshot. Raises `ConnectorError` for tables with unsupported features, `RetriableError`, OSError."""

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
            raise _refusal(f"the format version {table['format-version']}, but only 1 and 2 are supported")
        self._location = str(table["location"]).rstrip("/") + "/"
        snapshot = _find_snapshot(table, version)
        self.version = str(snapshot["snapshot-id"])
        schema = snapshot.get("schema-id") if version else None
        self._fields = _find_fields(table, table.get("current-schema-id") if schema is None else schema)
        if "manifest-list" not in snapshot:
            raise _refusal("a snapshot without a manifest list")
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
        matches = {file.name: _FILE.fullmatch(file.name) for file in files}
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
                    raise _refusal(
                        "rows that delete files exclude",
                        "CALL system.rewrite_data_files with delete-file-threshold=1",
                    )
                if file["file_format"].upper() != "PARQUET":
                    raise _refusal(f"{file['file_format']} files, but only Parquet is supported")
                yield self._find(file["file_path"])

    def _read_avro(self, path: str) -> Iterator[Json]:
        from ringfence.connectors.sdk.avro.container import open_blocks

        _, blocks = open_blocks(io.BytesIO(read_whole(self._place, self._find(path))))
        return (record for _, records in blocks for record in records)

    def _find(self, path: str) -> FileInfo:
        if not path.startswith(self._location):
            raise _refusal("files outside its folder")
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


def _refusal(what: str, remedy: str = "") -> ConnectorError:
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
