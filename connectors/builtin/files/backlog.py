"""Which file a task reads next. Pure rules, without file access."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.builtin.files.places import FileInfo
from ringfence.connectors.builtin.files.settings import MODIFIED
from ringfence.connectors.sdk.linear_patterns import LinearPattern

BUCKETS: Final = 256
"""Files are distributed to tasks by bucket, so that the state of a bucket is valid for any number of tasks."""


@dataclass(frozen=True, slots=True)
class Share:
    """The buckets of one task."""

    index: int
    count: int

    def owns(self, name: str) -> bool:
        return bucket_of(name) % self.count == self.index

    @property
    def buckets(self) -> range:
        return range(self.index, BUCKETS, self.count)


def bucket_of(name: str) -> int:
    """Return a file's bucket. It must never change: marks are stored by bucket."""
    return zlib.crc32(name.encode("utf-8", "surrogateescape")) % BUCKETS


class Backlog:
    """The files of the last listing that are still to be read."""

    def __init__(self, share: Share, pattern: str, order: str, settle_seconds: float) -> None:
        self._share = share
        self._matches = LinearPattern(pattern).fullmatch
        self._order: Callable[[FileInfo], tuple[object, ...]] = _by_time if order == MODIFIED else _by_name
        self._settle = settle_seconds
        self._since: dict[str, tuple[str, float]] = {}
        """By name: the ETag that was seen last, and since when."""
        self._closed: dict[str, str] = {}
        """By name: the ETag of the content that needs no more reading."""
        self._files: list[FileInfo] = []

    def update(self, files: Iterable[FileInfo], now: float) -> list[FileInfo]:
        """Process a listing. Returns the files that are ready, in reading order.

        now: seconds of any monotonic clock.
        """
        own_files = [file for file in files if self._share.owns(file.name) and self._matches(file.name)]
        since = {}
        for file in own_files:
            etag, since_s = self._since.get(file.name, (None, now))
            since[file.name] = (file.etag, since_s if etag == file.etag else now)
        self._since = since
        self._closed = {name: etag for name, etag in self._closed.items() if name in since}
        self._files = own_files
        return sorted(filter(self._ready_at(now), own_files), key=self._order)

    def close(self, file: FileInfo) -> None:
        """Record that this content needs no more reading."""
        self._closed[file.name] = file.etag

    def names(self, *, closed: bool) -> list[str]:
        """Return the files of the last listing that need no more reading (closed), or those that do."""
        return [file.name for file in self._files if (self._closed.get(file.name) == file.etag) is closed]

    def _ready_at(self, now: float) -> Callable[[FileInfo], bool]:
        def ready(file: FileInfo) -> bool:
            return self._closed.get(file.name) != file.etag and now - self._since[file.name][1] >= self._settle

        return ready


class Marks:
    """For each bucket, the name up to which all files have been read, so that older files can be forgotten.

    A mark stays `lookback` read files behind the last one, and before every file that is still to be read.
    """

    def __init__(self, lookback: int, through: Mapping[int, str]) -> None:
        self._lookback = lookback
        self._through = dict(through)

    def covers(self, name: str) -> bool:
        """Return whether the file counts as read, even if nothing else is known about it."""
        through = self._through.get(bucket_of(name))
        return through is not None and name <= through

    def advance(self, read: Iterable[str], waiting: Iterable[str]) -> dict[int, list[str]]:
        """Move the marks, given names from the listing. Returns, by bucket, the names that its mark has passed now."""
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
