"""A version of a Delta table, read from its log (https://github.com/delta-io/delta/blob/master/PROTOCOL.md).

Delta's own readers open files with credentials and addresses that they find themselves. Here the log is read through
the places, as the rows are, so that the worker's rules apply to both.
"""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.files.places import FileInfo, Place
from ringfence.connectors.builtin.spark_table.snapshots import (
    FileConstants,
    Snapshot,
    find_type,
    metadata_errors,
    read_whole,
)

if TYPE_CHECKING:
    import pyarrow

FOLDER: Final = "_delta_log/"
_COMMIT: Final = re.compile(re.escape(FOLDER) + r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(re.escape(FOLDER) + r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_FEATURES: Final = {"columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck"}
"""Features that change nothing unless they are used; their use is refused."""

Action = Mapping[str, Any]


class DeltaSnapshot(Snapshot):
    """One version. Raises `ConnectorError` for tables with unsupported features, `RetriableError`, OSError."""

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
                raise _refusal("deletion vectors, which exclude rows of files", "REORG TABLE … APPLY (PURGE)")
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
        raise _refusal("files outside its folder, as shallow clones have", "CREATE TABLE … DEEP CLONE")
    return unquote(path)


def _check_protocol(protocol: Action) -> None:
    features = set(protocol.get("readerFeatures") or ())
    if not protocol:
        raise ConnectorError("The log of the Delta table does not contain its protocol: it is incomplete.")
    if protocol["minReaderVersion"] > 3 or (unknown := sorted(features - _FEATURES)):
        what = ", ".join(unknown) if protocol["minReaderVersion"] <= 3 else "a later protocol"
        raise _refusal(f"unsupported features ({what})", "ALTER TABLE … DROP FEATURE")


def _check_metadata(metadata: Action) -> None:
    if not metadata:
        raise ConnectorError("The log of the Delta table does not contain its columns: it is incomplete.")
    if (metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none") != "none":
        raise _refusal(
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


def _refusal(what: str, remedy: str) -> ConnectorError:
    return ConnectorError(
        f"The Delta table has {what}. Remove that with {remedy}, or write the rows to a separate folder with Spark "
        "(df.write.parquet), and name that folder."
    )
