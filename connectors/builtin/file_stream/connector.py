"""FileStreamSource: the counterpart of Kafka's FileStreamSourceConnector."""

import os
import stat
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    ConnectorError,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    SourceConnector,
    SourceOffset,
    SourcePartition,
)
from ringfence.connectors.builtin.file_stream.line_splitting import count_lines
from ringfence.connectors.builtin.file_stream.task import (
    CONFIG_DEF,
    FILE,
    FILENAME,
    POSITION,
    FileStreamSourceTask,
    not_a_file,
    unreadable,
)
from ringfence.connectors.sdk.files import ClosedFile, open_allowed


class FileStreamSourceConnector(SourceConnector):
    """One task, regardless of `tasks.max`: a file is one stream of lines."""

    version: ClassVar[str] = "1.0.0"
    reads_offsets = False
    own_settings = CONFIG_DEF
    task_type = FileStreamSourceTask
    aliases: ClassVar[tuple[str, ...]] = ("org.apache.kafka.connect.file.FileStreamSourceConnector",)
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="One text file",
        summary="Follows a file that other programs append lines to.",
        category=Category.FILES,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=("A file below the worker's file.roots, readable where the tasks run.",),
        sample={
            "tasks.max": "1",
            "file": "/var/log/app/events.log",
            "topic": "events",
            "value.converter": "StringConverter",
        },
        icon="file-text",
    )

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """Report a file that cannot be read, before a task fails because of it."""
        path = config.get(FILE, "").strip()
        if not path:
            return {}  # the definition has already reported it
        try:
            with open(path, "rb", opener=open_allowed) as file:
                regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        except ClosedFile as error:
            return {FILE: [str(error)]}
        except IsADirectoryError:
            regular = False
        except OSError as error:
            return {FILE: [unreadable(path, error)]}
        except ValueError:
            return {FILE: [f"{path!r} is not a path. Set the path of a file that every worker can read."]}
        return {} if regular else {FILE: [not_a_file(path)]}

    def examine(self, config: Mapping[str, str]) -> Examination:
        path = config.get(FILE, "").strip()
        if not path:
            return Examination({FILE: ["Say which file to read."]})
        errors = self.validate(config)
        return Examination(errors) if errors else Examination(summary=f"{os.path.getsize(path):,} bytes so far.")

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported if the file is only appended to; the task fails if it detects any other change."""
        return ExactlyOnceSupport.SUPPORTED if config.get(FILE) else ExactlyOnceSupport.UNSUPPORTED

    def count_records(self, config: Mapping[str, str], partition: SourcePartition, offset: SourceOffset) -> int | None:
        """Return the number of lines up to the committed position; None for another file, or one that
        does not exist.
        """
        path, left = config.get(FILE, "").strip(), offset.get(POSITION)
        if partition.get(FILENAME) != path or not isinstance(left, int):
            return None
        try:
            with open(path, "rb", opener=open_allowed) as file:
                return count_lines(file, left)
        except (OSError, ClosedFile):
            return None

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one needs a position, and a partition that names a file."""
        if not config.get(FILE):
            raise ConnectorError(f"Offsets cannot be altered without the setting {FILE!r}: set it first.")
        for partition, offset in offsets:
            if offset is None:
                continue
            position = offset.get(POSITION)
            if not isinstance(position, int) or isinstance(position, bool) or position < 0:
                raise ConnectorError(
                    f"The offset {dict(offset)} must have a non-negative integer of bytes under {POSITION!r}."
                )
            if not isinstance(partition.get(FILENAME), str):
                raise ConnectorError(f"The partition {dict(partition)} must name a file under {FILENAME!r}.")
        return True
