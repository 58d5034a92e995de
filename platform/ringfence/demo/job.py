"""Streams the flights, kills a worker halfway, and counts what a read_committed consumer sees."""

import os
import signal
import time
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ringfence.demo.flights import FLIGHTS, flights_file
from ringfence.demo.tally import Tally, TallyResult
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.errors import LocalError
from ringfence.local.running_platform import Running

VICTIM = "worker-1"
# Small transactions, so that the job lasts long enough to watch, and to kill a worker in the middle.
LINES_A_TRANSACTION = 100
STILL_SECONDS = 120.0
# Long enough for a duplicate to appear after the last record.
AFTERGLOW_SECONDS = 3.0


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
