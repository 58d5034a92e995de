"""`ringfence topics tail`: prints what a read_committed consumer sees of a topic: the last records, then new ones."""

import argparse
import contextlib
from collections.abc import Iterator

from ringfence.client.output import escape
from ringfence.commands import cluster_settings
from ringfence.consumer_commands import consumer_commands
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.topic_records import Limits, tail
from ringfence.local.errors import LocalError

_SECONDS = 30.0
_LARGEST = 1024 * 1024
_AT_ONCE = 500


def run(args: argparse.Namespace) -> int:
    """Print records until Ctrl-C; with --exit, only the existing ones. Raises `LocalError`."""
    config = cluster_settings.worker_config(args)
    if args.commands:
        file = cluster_settings.client_file(args)
        for command in consumer_commands(config.bootstrap, args.topic, config.settings, file):
            print(command.text)
        return 0
    connection = config.connection("ringfence-topics-tail")
    try:
        with contextlib.suppress(KeyboardInterrupt):
            for line in _lines(connection, args.topic, args.last, follow=not args.exit):
                print(line, flush=True)
    except FencingError as error:
        raise LocalError(f"Topic {args.topic} cannot be read at {config.bootstrap}: {error}") from error
    return 0


def _lines(connection: Connection, topic: str, last: int, *, follow: bool) -> Iterator[str]:
    limits = Limits(records=last, size=_LARGEST)
    newest = tail(connection, topic, Deadline.after(_SECONDS), limits, committed_only=True)
    for record in reversed(newest.records):
        yield _line(record.partition, record.offset, record.key, record.value)
    if not follow:
        return
    reader = PartitionReader(connection, topic, {each.partition: each.stable for each in newest.stretches})
    try:
        while True:
            for new in reader.poll(1.0, _AT_ONCE):
                yield _line(new.partition, new.offset, new.key, new.value)
    finally:
        reader.close()


def _line(partition: int, offset: int, key: bytes | None, value: bytes | None) -> str:
    return f"{partition}:{offset}\t{_text(key)}\t{_text(value)}"


def _text(data: bytes | None) -> str:
    return "null" if data is None else escape(data.decode("utf-8", "backslashreplace"))
