"""The settings of FilesSource, and the names in its source partitions and offsets."""

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    DataException,
    Importance,
    ParsedConfig,
    Recommender,
    SettingGroup,
    ShownIf,
)
from ringfence.connectors.sdk.linear_patterns import LinearPattern
from ringfence.connectors.sdk.unsupported_values import Handling, define_unsupported_values, handling_of
from ringfence.connectors.sdk.values.texts import is_unicode

ENCODING_ERRORS: Final = "encoding.errors"
UNSIGNED: Final = "bigint.unsigned.handling.mode"
INT96: Final = "parquet.int96.unit"

PRECISE: Final = "precise"
LONG: Final = "long"
UNITS: Final = {"microseconds": "us", "nanoseconds": "ns", "milliseconds": "ms"}
"""Arrow's names of the units."""


class BadText(StrEnum):
    """What becomes of bytes that are not text in the file's encoding."""

    FAIL = "fail"
    """The row is refused: `errors.tolerance` decides."""
    REPLACE = "replace"
    """Each is replaced by U+FFFD."""
    ESCAPE = "escape"
    r"""Each is written as `\xff`."""


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """unsigned: `precise` or `long`; int96: the unit of INT96 timestamps, as Arrow names it."""

    bad_text: BadText = BadText.FAIL
    unsupported: Handling = Handling.FAIL
    unsigned: str = PRECISE
    int96: str = "us"


def options_of(settings: ParsedConfig) -> ValueOptions:
    """Return the connector's choices."""
    return ValueOptions(
        BadText(settings.string(ENCODING_ERRORS)),
        handling_of(settings),
        settings.string(UNSIGNED),
        UNITS[settings.string(INT96)],
    )


def define_values(group: SettingGroup, offer: Callable[..., Recommender]) -> None:
    """Define the settings, but for that of unsupported values. offer: returns what offers the given values of a setting
    for Parquet only.
    """
    group.choice(
        ENCODING_ERRORS,
        "What becomes of bytes that are not text in the file's encoding, and of halves of surrogate "
        "pairs in JSON. fail: the row is refused, and errors.tolerance decides. replace: U+FFFD takes their place. "
        "escape: they are written as \\xff.",
        (each.value for each in BadText),
        BadText.FAIL.value,
        importance=Importance.LOW,
        display_name="Bytes that are not text",
    )
    group.choice(
        UNSIGNED,
        "The type of unsigned 64-bit integers in Parquet. precise: Decimal. long: int64, which does not "
        "hold those from 9223372036854775808 on.",
        (PRECISE, LONG),
        PRECISE,
        recommender=offer(PRECISE, LONG),
        importance=Importance.LOW,
        display_name="Unsigned 64-bit integers",
    )
    group.choice(
        INT96,
        "The unit of Parquet's old timestamps, INT96. Finer digits are cut off. Nanoseconds reach from "
        "1677 to 2262, microseconds a thousand times as far. A row with a timestamp beyond is refused.",
        UNITS,
        "microseconds",
        recommender=offer(*UNITS),
        importance=Importance.LOW,
        display_name="Unit of INT96 timestamps",
    )


def repair_text(text: str, bad_text: BadText) -> str:
    """Return a text that was decoded with `surrogateescape`, as the setting says. Raises `DataException`."""
    if bad_text is BadText.FAIL:
        raise DataException(
            "the text contains bytes that are not in its encoding, or half of a surrogate pair",
            value=repair_text(text, BadText.ESCAPE),
            remedy=f"Set the right encoding, or {ENCODING_ERRORS} to {BadText.REPLACE} or {BadText.ESCAPE}",
            settings=(ENCODING_ERRORS,),
        )
    return "".join(_repair(each, bad_text) if "\ud800" <= each <= "\udfff" else each for each in text)


def _repair(surrogate: str, bad_text: BadText) -> str:
    if bad_text is BadText.REPLACE:
        return "\ufffd"
    number = ord(surrogate)
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else f"\\u{number:04x}"


def repair_texts(value: Any, bad_text: BadText) -> Any:
    """Return a value of lists, dictionaries and texts with each text repaired. Raises `DataException`."""
    if isinstance(value, str):
        return value if is_unicode(value) else repair_text(value, bad_text)
    if isinstance(value, list):
        return [repair_texts(each, bad_text) for each in value]
    if isinstance(value, dict):
        return {repair_texts(key, bad_text): repair_texts(each, bad_text) for key, each in value.items()}
    return value


SHARE: Final = "files.share"
"""In a task's configuration: `index/count`, its share of the files."""

NAME: Final = "name"
MODIFIED: Final = "modified"
FAIL: Final = "fail"
READ: Final = "read"
IGNORE: Final = "ignore"
KEEP: Final = "keep"
DELETE: Final = "delete"
MOVE: Final = "move"
FILL: Final = "fill"
CUT: Final = "cut"

URL_KEY: Final = "url"
"""The key in a file's source partition: `{"url": "s3://bucket/in/0007.parquet"}`."""
BUCKET_KEY: Final = "bucket"
"""Beside `url` in the partition of a bucket's mark: all names up to `through` have been read."""
THROUGH: Final = "through"
ETAG: Final = "etag"
"""In a file's source offset: which content of the file was read."""
DONE: Final = "done"
"""In a file's source offset: true if the whole file was read."""

_BINARY: Final = ("parquet", "avro")


def check_pattern(name: str, value: object) -> None:
    """Require a regular expression."""
    try:
        LinearPattern(str(value))
    except ValueError as error:
        raise ConfigException.invalid(name, value, f"Not a regular expression: {error}") from error


def check_character(name: str, value: object) -> None:
    r"""Require one character, or `\\t`."""
    if len(as_character(str(value))) != 1:
        raise ConfigException.invalid(name, value, r"Must be one character; write \t for a tab")


def check_optional_character(name: str, value: object) -> None:
    """Require at most one character."""
    if value:
        check_character(name, value)


def as_character(text: str) -> str:
    r"""Return the character that the setting means: `\\t` is a tab."""
    return "\t" if text == r"\t" else text


def check_encoding(name: str, value: object) -> None:
    """Require an encoding that contains ASCII unchanged, so that lines can be found without decoding; or a wide one."""
    try:
        plain = is_wide(str(value)) or "\n\r,;\"'{}".encode(str(value)) == b"\n\r,;\"'{}"
    except (LookupError, UnicodeError) as error:
        raise ConfigException.invalid(name, value, "Not an encoding that Python knows, such as utf-8") from error
    if not plain:
        raise ConfigException.invalid(
            name, value, "Must be UTF-16, UTF-32, or an encoding that contains ASCII, such as utf-8 or cp1252"
        )


def is_wide(encoding: str) -> bool:
    """Return whether all characters of the encoding have two or four bytes. Raises LookupError if it is unknown."""
    return codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))


FORMATS: Final = ("text", "jsonl", "csv", "parquet", "avro")
OWN: Final = ConfigDef()
"""The settings, but for those of places."""
_files: Final = OWN.group("Files")
_csv: Final = OWN.group("CSV")

URL: Final = _files.text(
    "url",
    "The folder to read: /data/in (or file:///data/in), s3://bucket/prefix, gs://bucket/prefix, "
    "abfs://container@account.dfs.core.windows.net/prefix or sftp://host/folder. Subfolders are read, too.",
    display_name="Folder",
)
TOPIC: Final = _files.text("topic", "The topic to write to: one record per line or row.", display_name="Topic")
FORMAT: Final = _files.choice(
    "format",
    "The format of the files. Files that end with .gz, .bz2, .xz, .zst or .zip are "
    "decompressed (not Parquet and Avro, which compress their blocks themselves).",
    FORMATS,
    display_name="Format",
)
_IF_CSV: Final = ShownIf(FORMAT, lambda name: name == "csv")
PATTERN: Final = _files.text(
    "input.file.pattern",
    "Which files to read: a regular expression for the whole path below the folder. Files and "
    "folders whose names begin with a dot are never read.",
    ".*",
    validator=check_pattern,
    importance=Importance.HIGH,
    display_name="Pattern",
)
ORDER: Final = _files.choice(
    "order",
    "Which of the waiting files a task reads next: the first by name, or the oldest.",
    (NAME, MODIFIED),
    NAME,
    display_name="Order",
)
POLL_INTERVAL: Final = _files.integer(
    "poll.interval.ms", "Milliseconds between two listings for new files.", 5000, 100, display_name="Poll interval (ms)"
)
SETTLE: Final = _files.integer(
    "settle.ms",
    "A file is read once its size and time have not changed for this many milliseconds. If "
    "writers take longer, let them write under a name with a leading dot and rename the file.",
    1000,
    0,
    display_name="Settling time (ms)",
)
ON_CHANGE: Final = _files.choice(
    "on.change",
    "What to do with a file whose content changes after its first record was read: fail the "
    "task, read the file from its beginning as a new one, or skip the rest.",
    (FAIL, READ, IGNORE),
    FAIL,
    display_name="If a file changes",
)
AFTER: Final = _files.choice(
    "after",
    "What to do with a file after its last record was committed.",
    (KEEP, DELETE, MOVE),
    KEEP,
    display_name="When a file is read",
)
MOVE_TO: Final = _files.text(
    "move.to",
    "With after=move: the folder to move files to, at the same place as the one to read.",
    None,
    recommender=ShownIf(AFTER, lambda after: after == MOVE),
    importance=Importance.HIGH,
    display_name="Move to",
)
LOOKBACK: Final = _files.integer(
    "lookback.files",
    "With order=name and after=keep: forget files that sort more than this many places before the last one that was "
    "read, to keep the offsets topic small. A file that appears later with such a name is not read. 0: forget none.",
    0,
    0,
    importance=Importance.LOW,
    display_name="Lookback (files)",
)
BATCH_SIZE: Final = _files.integer(
    "batch.size",
    "The maximum number of records in a batch; with transaction.boundary=poll, a batch is a "
    "transaction. With transaction.boundary=connector, each file is one transaction.",
    2000,
    1,
    importance=Importance.LOW,
    display_name="Batch size",
)
FILE_HEADERS: Final = _files.flag(
    "file.headers",
    "Give each record two headers: file, the file's address, and the position after the record.",
    False,
    importance=Importance.LOW,
    display_name="File headers",
)
ENCODING: Final = _files.text(
    "encoding",
    "The encoding of text, CSV and JSON, such as utf-8, cp1252 or utf-16.",
    "utf-8",
    validator=check_encoding,
    recommender=ShownIf(FORMAT, lambda name: name not in _BINARY),
    importance=Importance.LOW,
    display_name="Encoding",
)
define_unsupported_values(_files)
define_values(_files, lambda *values: ShownIf(FORMAT, lambda name: name == "parquet", *values))
CSV_DELIMITER: Final = _csv.text(
    "csv.delimiter",
    "The character between two fields. \\t is a tab.",
    ",",
    validator=check_character,
    recommender=_IF_CSV,
    importance=Importance.HIGH,
    display_name="Delimiter",
)
CSV_QUOTE: Final = _csv.text(
    "csv.quote",
    "The character around a field with delimiters or line ends in it; doubled, it stands for itself.",
    '"',
    validator=check_character,
    recommender=_IF_CSV,
    importance=Importance.LOW,
    display_name="Quote",
)
CSV_HEADER: Final = _csv.flag(
    "csv.header",
    "Whether the first row of each file names the fields. Otherwise they are column1, column2, …",
    True,
    recommender=_IF_CSV,
    importance=Importance.HIGH,
    display_name="Header row",
)
CSV_NULL: Final = _csv.text(
    "csv.null",
    "A field with this text is null. If it is not set, no field is null.",
    None,
    recommender=_IF_CSV,
    importance=Importance.LOW,
    display_name="Text for null",
)
CSV_ESCAPE: Final = _csv.text(
    "csv.escape",
    "A character that takes the meaning from a quote in a quoted field, and from itself, such as "
    "\\. Before all others, and in fields without quotes, it stands for itself. Without it, only a doubled "
    "quote stands for one.",
    None,
    validator=check_optional_character,
    recommender=_IF_CSV,
    importance=Importance.LOW,
    display_name="Escape",
)
CSV_RAGGED: Final = _csv.choice(
    "csv.ragged",
    "What becomes of rows with fewer or more fields than the first. fail: the row is refused, "
    "and errors.tolerance decides. fill: fields that are missing are null, and empty ones beyond the last are "
    "left out. cut: all fields beyond the last are left out, too.",
    (FAIL, FILL, CUT),
    FAIL,
    recommender=ShownIf(FORMAT, lambda name: name == "csv", FAIL, FILL, CUT),
    importance=Importance.LOW,
    display_name="Rows of another length",
)
