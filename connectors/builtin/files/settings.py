"""The settings of FilesSource, and the names in its source partitions and offsets."""

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigException,
    ConfigType,
    DataException,
    Importance,
    NonEmpty,
    OneOf,
    ParsedConfig,
    Range,
    Recommender,
    ShownIf,
    Width,
)
from ringfence.connectors.linear_patterns import LinearPattern
from ringfence.connectors.unsupported_values import Handling, define_unsupported_values, handling_of
from ringfence.connectors.values.texts import is_unicode

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


def define_values(keys: ConfigDef, group: str | None, offer: Callable[..., Recommender]) -> None:
    """Define the settings, but for that of unsupported values. group: of those that they are shown with; offer: returns
    what offers the given values of a setting for Parquet only.
    """
    keys.define(
        ENCODING_ERRORS,
        ConfigType.STRING,
        BadText.FAIL.value,
        validator=OneOf(*(each.value for each in BadText)),
        recommender=Choices(*(each.value for each in BadText)),
        importance=Importance.LOW,
        group=group,
        display_name="Bytes that are not text",
        documentation="What becomes of bytes that are not text in the file's encoding, and of halves of surrogate "
        "pairs in JSON. fail: the row is refused, and errors.tolerance decides. replace: U+FFFD takes their place. "
        "escape: they are written as \\xff.",
    )
    keys.define(
        UNSIGNED,
        ConfigType.STRING,
        PRECISE,
        validator=OneOf(PRECISE, LONG),
        recommender=offer(PRECISE, LONG),
        importance=Importance.LOW,
        group=group,
        display_name="Unsigned 64-bit integers",
        documentation="The type of unsigned 64-bit integers in Parquet. precise: Decimal. long: int64, which does not "
        "hold those from 9223372036854775808 on.",
    )
    keys.define(
        INT96,
        ConfigType.STRING,
        "microseconds",
        validator=OneOf(*UNITS),
        recommender=offer(*UNITS),
        importance=Importance.LOW,
        group=group,
        display_name="Unit of INT96 timestamps",
        documentation="The unit of Parquet's old timestamps, INT96. Finer digits are cut off. Nanoseconds reach from "
        "1677 to 2262, microseconds a thousand times as far. A row with a timestamp beyond is refused.",
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


URL: Final = "url"
TOPIC: Final = "topic"
PATTERN: Final = "input.file.pattern"
FORMAT: Final = "format"
ORDER: Final = "order"
BATCH_SIZE: Final = "batch.size"
POLL_INTERVAL: Final = "poll.interval.ms"
SETTLE: Final = "settle.ms"
LOOKBACK: Final = "lookback.files"
ON_CHANGE: Final = "on.change"
AFTER: Final = "after"
MOVE_TO: Final = "move.to"
FILE_HEADERS: Final = "file.headers"
CSV_DELIMITER: Final = "csv.delimiter"
CSV_QUOTE: Final = "csv.quote"
CSV_HEADER: Final = "csv.header"
CSV_NULL: Final = "csv.null"
CSV_ESCAPE: Final = "csv.escape"
CSV_RAGGED: Final = "csv.ragged"
ENCODING: Final = "encoding"

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

_FILES: Final = "Files"
_CSV: Final = "CSV"
_BINARY: Final = ("parquet", "avro")
_IF_CSV: Final = ShownIf(FORMAT, lambda name: name == "csv")


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


def define(formats: tuple[str, ...]) -> ConfigDef:
    """Return the definition, for these file formats."""
    keys = _define_files(formats)
    define_unsupported_values(keys, _FILES)
    define_values(keys, _FILES, lambda *values: ShownIf(FORMAT, lambda name: name == "parquet", *values))
    return _define_csv(keys)


def _define_files(formats: tuple[str, ...]) -> ConfigDef:
    return (
        ConfigDef()
        .define(
            URL,
            ConfigType.STRING,
            validator=NonEmpty(),
            importance=Importance.HIGH,
            group=_FILES,
            documentation="The folder to read: file:///data/in, s3://bucket/prefix, gs://bucket/prefix, "
            "abfs://container@account.dfs.core.windows.net/prefix or sftp://host/folder. Subfolders "
            "are read, too.",
            width=Width.LONG,
            display_name="Folder",
        )
        .define(
            TOPIC,
            ConfigType.STRING,
            validator=NonEmpty(),
            importance=Importance.HIGH,
            group=_FILES,
            documentation="The topic to write to: one record per line or row.",
            display_name="Topic",
        )
        .define(
            FORMAT,
            ConfigType.STRING,
            validator=OneOf(*formats),
            importance=Importance.HIGH,
            recommender=Choices(*formats),
            group=_FILES,
            documentation="The format of the files. Files that end with .gz, .bz2, .xz, .zst or .zip are "
            "decompressed (not Parquet and Avro, which compress their blocks themselves).",
            display_name="Format",
        )
        .define(
            PATTERN,
            ConfigType.STRING,
            ".*",
            validator=check_pattern,
            importance=Importance.HIGH,
            group=_FILES,
            documentation="Which files to read: a regular expression for the whole path below the folder. Files and "
            "folders whose names begin with a dot are never read.",
            width=Width.LONG,
            display_name="Pattern",
        )
        .define(
            ORDER,
            ConfigType.STRING,
            NAME,
            validator=OneOf(NAME, MODIFIED),
            recommender=Choices(NAME, MODIFIED),
            display_name="Order",
            group=_FILES,
            documentation="Which of the waiting files a task reads next: the first by name, or the oldest.",
        )
        .define(
            POLL_INTERVAL,
            ConfigType.INT,
            5000,
            validator=Range(100),
            display_name="Poll interval (ms)",
            group=_FILES,
            documentation="Milliseconds between two listings for new files.",
        )
        .define(
            SETTLE,
            ConfigType.INT,
            1000,
            validator=Range(0),
            display_name="Settling time (ms)",
            group=_FILES,
            documentation="A file is read once its size and time have not changed for this many milliseconds. If "
            "writers take longer, let them write under a name with a leading dot and rename the file.",
        )
        .define(
            ON_CHANGE,
            ConfigType.STRING,
            FAIL,
            validator=OneOf(FAIL, READ, IGNORE),
            recommender=Choices(FAIL, READ, IGNORE),
            display_name="If a file changes",
            group=_FILES,
            documentation="What to do with a file whose content changes after its first record was read: fail the "
            "task, read the file from its beginning as a new one, or skip the rest.",
        )
        .define(
            AFTER,
            ConfigType.STRING,
            KEEP,
            validator=OneOf(KEEP, DELETE, MOVE),
            recommender=Choices(KEEP, DELETE, MOVE),
            display_name="When a file is read",
            group=_FILES,
            documentation="What to do with a file after its last record was committed.",
        )
        .define(
            MOVE_TO,
            ConfigType.STRING,
            None,
            recommender=ShownIf(AFTER, lambda after: after == MOVE),
            importance=Importance.HIGH,
            display_name="Move to",
            group=_FILES,
            documentation="With after=move: the folder to move files to, at the same place as the one to read.",
            width=Width.LONG,
        )
        .define(
            LOOKBACK,
            ConfigType.INT,
            0,
            validator=Range(0),
            importance=Importance.LOW,
            display_name="Lookback (files)",
            group=_FILES,
            documentation="With order=name and after=keep: forget files that sort more than this many places before "
            "the last one that was read, to keep the offsets topic small. A file that appears later "
            "with such a name is not read. 0: forget none.",
        )
        .define(
            BATCH_SIZE,
            ConfigType.INT,
            2000,
            validator=Range(1),
            importance=Importance.LOW,
            display_name="Batch size",
            group=_FILES,
            documentation="The maximum number of records in a batch; with transaction.boundary=poll, a batch is a "
            "transaction. With transaction.boundary=connector, each file is one transaction.",
        )
        .define(
            FILE_HEADERS,
            ConfigType.BOOLEAN,
            False,
            importance=Importance.LOW,
            display_name="File headers",
            group=_FILES,
            documentation="Give each record two headers: file, the file's address, and the position after the record.",
        )
        .define(
            ENCODING,
            ConfigType.STRING,
            "utf-8",
            validator=check_encoding,
            importance=Importance.LOW,
            recommender=ShownIf(FORMAT, lambda name: name not in _BINARY),
            display_name="Encoding",
            group=_FILES,
            documentation="The encoding of text, CSV and JSON, such as utf-8, cp1252 or utf-16.",
        )
    )


def _define_csv(keys: ConfigDef) -> ConfigDef:
    return (
        keys.define(
            CSV_DELIMITER,
            ConfigType.STRING,
            ",",
            validator=check_character,
            recommender=_IF_CSV,
            importance=Importance.HIGH,
            display_name="Delimiter",
            group=_CSV,
            documentation="The character between two fields. \\t is a tab.",
        )
        .define(
            CSV_QUOTE,
            ConfigType.STRING,
            '"',
            validator=check_character,
            importance=Importance.LOW,
            recommender=_IF_CSV,
            display_name="Quote",
            group=_CSV,
            documentation=(
                "The character around a field with delimiters or line ends in it; doubled, it stands for itself."
            ),
        )
        .define(
            CSV_HEADER,
            ConfigType.BOOLEAN,
            True,
            recommender=_IF_CSV,
            importance=Importance.HIGH,
            display_name="Header row",
            group=_CSV,
            documentation="Whether the first row of each file names the fields. Otherwise they are column1, column2, …",
        )
        .define(
            CSV_NULL,
            ConfigType.STRING,
            None,
            importance=Importance.LOW,
            recommender=_IF_CSV,
            display_name="Text for null",
            group=_CSV,
            documentation="A field with this text is null. If it is not set, no field is null.",
        )
        .define(
            CSV_ESCAPE,
            ConfigType.STRING,
            None,
            validator=check_optional_character,
            importance=Importance.LOW,
            recommender=_IF_CSV,
            display_name="Escape",
            group=_CSV,
            documentation="A character that takes the meaning from a quote in a quoted field, and from itself, such as "
            "\\. Before all others, and in fields without quotes, it stands for itself. Without it, only a doubled "
            "quote stands for one.",
        )
        .define(
            CSV_RAGGED,
            ConfigType.STRING,
            FAIL,
            validator=OneOf(FAIL, FILL, CUT),
            importance=Importance.LOW,
            recommender=ShownIf(FORMAT, lambda name: name == "csv", FAIL, FILL, CUT),
            display_name="Rows of another length",
            group=_CSV,
            documentation="What becomes of rows with fewer or more fields than the first. fail: the row is refused, "
            "and errors.tolerance decides. fill: fields that are missing are null, and empty ones beyond the last are "
            "left out. cut: all fields beyond the last are left out, too.",
        )
    )
