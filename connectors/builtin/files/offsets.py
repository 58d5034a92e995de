"""The source offset of a file: which content, how far, and whether it was read to its end."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError, SourceOffset
from ringfence.connectors.builtin.files.settings import DONE, ETAG

UNITS: Final = ("byte", "row")


class FileOffset(NamedTuple):
    """The position in one file. unit: what the position counts."""

    etag: str
    unit: str
    position: int
    done: bool

    def as_json(self) -> dict[str, object]:
        """Return the form in the offsets topic: `{"etag": "…", "byte": 4096}`, with `"done": true` at the end."""
        offset: dict[str, object] = {ETAG: self.etag, self.unit: self.position}
        if self.done:
            offset[DONE] = True
        return offset


def parse(offset: SourceOffset) -> FileOffset:
    """Parse an offset. Raises `ConnectorError` if it is not FilesSource's."""
    if not isinstance(offset, Mapping):
        raise ConnectorError(f"The offset of a file is an object, and {str(offset)[:100]} is not")
    etag, done = offset.get(ETAG), offset.get(DONE, False)
    units = [unit for unit in UNITS if unit in offset]
    position = offset.get(units[0]) if units else None
    if (
        isinstance(etag, str)
        and isinstance(done, bool)
        and len(units) == 1
        and isinstance(position, int)
        and not isinstance(position, bool)
        and position >= 0
    ):
        return FileOffset(etag, units[0], position, done)
    raise ConnectorError(
        f"The offset {dict(offset)} must have a string under {ETAG!r} and one non-negative number under 'byte' or "
        f"'row', and may have true under {DONE!r}. Stop the connector and alter or reset its offsets."
    )
