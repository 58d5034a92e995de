"""The sink's arguments, validated and translated to librdkafka's settings. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ringfence.connectors.sdk.kafka_settings.java_names import BOOTSTRAP, TRANSACTION_TIMEOUT, Role, translate
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection, connection_of, producer_overrides


class SinkError(Exception):
    """The batch was not written completely. None of it is duplicated; a restarted query continues with it."""


class RepeatDiffers(SinkError):
    """Spark repeated a batch with other rows than those that are written."""


class Superseded(SinkError):
    """Another run of the same sink has started since: this one can no longer write."""


_PREFIX: Final = "kafka."  # as in the options of Spark's own sink
_SINK_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,150}")
_SHORTEST_MS: Final = 10_000
_ELSEWHERE: Final = {BOOTSTRAP: "bootstrap_servers", TRANSACTION_TIMEOUT: "transaction_timeout_ms"}


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """topic: for all rows; None if they have a column with that name. log_topic: where the sink stores its state."""

    connection: Connection
    sink_id: str
    topic: str | None
    log_topic: str
    transaction_timeout_ms: int
    producer: Mapping[str, object] = field(default_factory=dict, repr=False)
    keep_first: bool = False
    accept_other_checkpoint: bool = False

    @property
    def driver_id(self) -> str:
        """The transactional id of the driver's own records."""
        return f"{self.sink_id}-driver"

    def transactional_id(self, run: int, series: int, part: int, attempt: int | None) -> str:
        """Return the transactional id of a part. attempt: None for the first one, whose id the next batch
        uses again.
        """
        return f"{self.sink_id}-r{run}-{series}-{part}" + ("" if attempt is None else f"-{attempt}")

    def run_of(self, transactional_id: str) -> int | None:
        """Return which run's part has this id; None if it is not the id of a part of this sink."""
        match = re.fullmatch(rf"{re.escape(self.sink_id)}-r(\d+)-\d+-\d+(?:-\d+)?", transactional_id)
        return int(match[1]) if match else None


def read_settings(
    bootstrap_servers: str,
    topic: str | None,
    sink_id: str,
    options: Mapping[str, str],
    transaction_timeout_ms: int,
    log_topic: str,
    repeated_batch: str,
    other_checkpoint: str,
) -> SinkSettings:
    """Validate the arguments. Raises `SinkError`, which names the wrong one and contains no secret."""
    if not bootstrap_servers.strip():
        raise SinkError("bootstrap_servers: set at least one address, such as broker:9092.")
    if not _SINK_ID.fullmatch(sink_id):
        raise SinkError(f"sink_id {sink_id!r}: use up to 150 letters, digits, dots, hyphens and underscores.")
    if transaction_timeout_ms < _SHORTEST_MS:
        raise SinkError(f"transaction_timeout_ms {transaction_timeout_ms}: set at least {_SHORTEST_MS}.")
    for name, value, choices in (
        ("repeated_batch", repeated_batch, ("compare", "keep")),
        ("other_checkpoint", other_checkpoint, ("refuse", "accept")),
    ):
        if value not in choices:
            raise SinkError(f"{name} {value!r}: set {choices[0]!r} or {choices[1]!r}.")
    own = {name.removeprefix(_PREFIX): str(value) for name, value in options.items()}
    for name, better in _ELSEWHERE.items():
        if name in own:
            raise SinkError(f"options: set {name} as {better}.")
    wrong = translate(Role.PRODUCER, own).errors
    if wrong:
        raise SinkError(f"options: {' '.join(wrong.values())}")
    by_role = {f"{Role.PRODUCER}.{name}": value for name, value in own.items()}
    base = Connection(bootstrap_servers.strip(), client_id=f"ringfence-{sink_id}")
    try:
        connection = connection_of(Role.PRODUCER, base, by_role, {})
        overrides = producer_overrides(base, by_role, {}, transaction_timeout_ms)
    except Invalid as error:
        raise SinkError(f"options: {error}") from error
    return SinkSettings(
        connection,
        sink_id,
        topic,
        log_topic,
        transaction_timeout_ms,
        overrides,
        repeated_batch == "keep",
        other_checkpoint == "accept",
    )
