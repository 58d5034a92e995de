"""Which file a task reads next: pure rules, without any file."""

import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.builtin.files.places import FileInfo
from ringfence.connectors.builtin.files.settings import MODIFIED

BUCKETS: Final = 256
"""Files are dealt to tasks by bucket, so that what a bucket remembers holds for any number of tasks."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which of the buckets are a task's own."""

    index: int
    count: int

    def owns(self, name: str) -> bool:
        return bucket_of(name) % self.count == self.index

    @property
    def buckets(self) -> range:
        return range(self.index, BUCKETS, self.count)


def bucket_of(name: str) -> int:
    """The same for a name for ever: marks are kept by bucket."""
    return zlib.crc32(name.encode("utf-8", "surrogateescape")) % BUCKETS


class Backlog:
    """The files that wait to be read, of those that were listed last."""

    def __init__(self, share: Share, pattern: str, order: str, settle_seconds: float) -> None:
        self._share = share
        self._matches = re.compile(pattern).fullmatch
        self._order: Callable[[FileInfo], tuple[object, ...]] = _by_time if order == MODIFIED else _by_name
        self._settle = settle_seconds
        self._since: dict[str, tuple[str, float]] = {}
        """By name: the content that was seen, and since when."""
        self._closed: dict[str, str] = {}
        """By name: the content that needs no reading any more."""
        self._listed: list[FileInfo] = []

    def update(self, files: Iterable[FileInfo], now: float) -> list[FileInfo]:
        """Take a listing; `now` in seconds of any clock that only grows. The files to read, in their order."""
        listed = [file for file in files if self._share.owns(file.name) and self._matches(file.name)]
        since = {}
        for file in listed:
            etag, seen = self._since.get(file.name, (None, now))
            since[file.name] = (file.etag, seen if etag == file.etag else now)
        self._since = since
        self._closed = {name: etag for name, etag in self._closed.items() if name in since}
        self._listed = listed
        return sorted(filter(self._ready_at(now), listed), key=self._order)

    def close(self, file: FileInfo) -> None:
        """This content needs no reading any more."""
        self._closed[file.name] = file.etag

    def names(self, *, closed: bool) -> list[str]:
        """The files of the last listing that need no reading any more, or those that do."""
        return [file.name for file in self._listed if (self._closed.get(file.name) == file.etag) is closed]

    def _ready_at(self, now: float) -> Callable[[FileInfo], bool]:
        def ready(file: FileInfo) -> bool:
            return self._closed.get(file.name) != file.etag and now - self._since[file.name][1] >= self._settle

        return ready


class Marks:
    """Up to which name each bucket has been read, so that the files before it can be forgotten.

    A mark stays `lookback` files that were read behind the last one, and before every file that is still to be read.
    """

    def __init__(self, lookback: int, through: Mapping[int, str]) -> None:
        self._lookback = lookback
        self._through = dict(through)

    def covers(self, name: str) -> bool:
        """Whether the file counts as read whatever is known of it."""
        through = self._through.get(bucket_of(name))
        return through is not None and name <= through

    def advance(self, read: Iterable[str], waiting: Iterable[str]) -> dict[int, list[str]]:
        """Move the marks, given the names of what was listed: by bucket the names that its mark has passed now."""
        first_waiting: dict[int, str] = {}
        for name in (name for name in waiting if not self.covers(name)):
            bucket = bucket_of(name)
            first_waiting[bucket] = min(name, first_waiting.get(bucket, name))
        by_bucket: dict[int, list[str]] = {}
        for name in sorted(read):
            if not self.covers(name):
                by_bucket.setdefault(bucket_of(name), []).append(name)
        passed = {}
        for bucket, names in by_bucket.items():
            bound = first_waiting.get(bucket)
            before = [name for name in names[: max(0, len(names) - self._lookback)] if bound is None or name < bound]
            if before:
                passed[bucket] = before
                self._through[bucket] = before[-1]
        return passed


def _by_name(file: FileInfo) -> tuple[object, ...]:
    return (file.name,)


def _by_time(file: FileInfo) -> tuple[object, ...]:
    return (file.modified, file.name)
