"""Splits a stream of byte chunks into lines, and tracks the byte where each line ends.

A line ends with LF, CR LF or a lone CR, as in Java's `BufferedReader`. A CR as the very last byte does not end a line
yet, since an LF may follow. Text after the last line end is kept until its line end arrives.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import BinaryIO, Final, overload

_ENDS = b"\r\n"
_CHUNK: Final = 1024 * 1024


class LineBuffer:
    """Takes chunks, returns whole lines. `position` is the byte after the last line that was returned."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._lines: list[bytes] = []
        self._next = 0
        self._with_ends = False
        """Whether `_lines` include their line ends: in files with CRs these differ in length and must be counted."""
        self._partial: list[bytes] = []
        self._partial_ends_with_cr = False

    def __len__(self) -> int:
        """Return the number of complete lines."""
        return len(self._lines) - self._next

    def feed(self, chunk: bytes) -> None:
        """Append the next bytes of the stream."""
        if not chunk:
            return
        if b"\n" not in chunk and b"\r" not in chunk and not self._partial_ends_with_cr:
            self._partial.append(chunk)  # a line longer than a chunk is joined only once
            return
        data = b"".join([*self._partial, chunk]) if self._partial else chunk
        if b"\r" in data:
            self._add_counted(data)
        else:
            lines = data.split(b"\n")
            self._keep_partial(lines.pop())
            if self._with_ends and len(self):
                lines = [line + b"\n" for line in lines]
            else:
                self._with_ends = False
            self._append(lines)

    def _add_counted(self, data: bytes, *, whole: bool = False) -> None:
        lines = data.splitlines(keepends=True)  # on bytes, this splits at exactly LF, CR LF and CR
        self._keep_partial(b"" if whole or lines[-1].endswith(b"\n") else lines.pop())
        if not self._with_ends:
            self._lines = [line + b"\n" for line in self._lines[self._next :]]
            self._next = 0
            self._with_ends = True
        self._append(lines)

    def _keep_partial(self, rest: bytes) -> None:
        self._partial = [rest] if rest else []
        self._partial_ends_with_cr = rest.endswith(b"\r")

    def _append(self, lines: list[bytes]) -> None:
        if self._next:
            self._lines = self._lines[self._next :] + lines
            self._next = 0
        else:
            self._lines.extend(lines)

    def finish(self) -> None:
        """End the stream: text without a line end is a line, too. Its position is then one byte after the end."""
        if self._partial_ends_with_cr:
            self._add_counted(b"".join(self._partial), whole=True)
        elif self._partial:
            self.feed(b"\n")

    def take(self, limit: int) -> list[bytes]:
        """Return at most `limit` lines without their line ends; `position` moves to the end of the last."""
        lines = self._cut(limit)
        if self._with_ends:
            self.position += sum(map(len, lines))
            return [line.rstrip(_ENDS) for line in lines]
        self.position += sum(map(len, lines)) + len(lines)
        return lines

    def take_with_positions(self, limit: int) -> tuple[list[bytes], Sequence[int]]:
        """Do the same, and return the position after each line."""
        lines, start = self._cut(limit), self.position
        positions = _Positions(lines, start, 0 if self._with_ends else 1)
        self.position = start + sum(map(len, lines)) + (0 if self._with_ends else len(lines))
        return ([line.rstrip(_ENDS) for line in lines] if self._with_ends else lines), positions

    def _cut(self, limit: int) -> list[bytes]:
        lines = self._lines[self._next : self._next + limit]
        self._next += len(lines)
        if self._next == len(self._lines):
            self._lines = []
            self._next = 0
        return lines


class _Positions(Sequence[int]):
    """The position after each line, computed for the first one that is asked for: most often none is."""

    def __init__(self, lines: Sequence[bytes], start: int, end: int) -> None:
        """start: before the first line. end: the bytes of each line's end that are not in `lines`."""
        self._lines = lines
        self._start = start
        self._end = end
        self._positions: list[int] = []

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if not self._positions:
            lengths = (len(line) + self._end for line in self._lines)
            self._positions = list(accumulate(lengths, initial=self._start))[1:]
        return self._positions[place]


def count_lines(file: BinaryIO, size: int) -> int | None:
    """Return the number of lines that end within the first `size` bytes; None if the file is shorter."""
    lines, after_cr = 0, False
    while size > 0:
        chunk = file.read(min(size, _CHUNK))
        if not chunk:
            return None
        size -= len(chunk)
        both = chunk.count(b"\r\n") + (after_cr and chunk.startswith(b"\n"))
        lines += chunk.count(b"\n") + chunk.count(b"\r") - both
        after_cr = chunk.endswith(b"\r")
    return lines
