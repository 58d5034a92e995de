"""Reads and replays a connector's dead letters on a worker, with the connector's credentials or the worker's.

A replay converts the records in a plugin process, and writes them here with the connector's producer settings.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ringfence.connectors.common_settings import ENABLE, OFFSETS_STORAGE_TOPIC
from ringfence.connectors.config_providers import ConfigProviders
from ringfence.connectors.sdk.delivery import DEAD_LETTERS
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.engine.fair_places import FairPlaces, place_for
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.call_server import decode_bytes, encode_bytes
from ringfence.engine.plugins.calls import ConvertDeadLetters
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.fencing.clock import SYSTEM_CLOCK, Deadline
from ringfence.fencing.dead_letters import (
    DeadLetterFilter,
    LetterConversion,
    Page,
    Replay,
    ReplayOutcome,
    ReplayResult,
    Replays,
    page,
)
from ringfence.fencing.errors import Fenced, FencingError, Invalid, UnknownOutcome
from ringfence.fencing.ids import ConnectorName, replay_transactional_id
from ringfence.fencing.kafka.connection import connection_of
from ringfence.fencing.kafka.topic_admin import TopicSpec
from ringfence.fencing.kafka.topic_records import Limits, TailRecord
from ringfence.fencing.leader.fence_targets import list_admin_access
from ringfence.fencing.records.dead_letter import PREFIX, DeadLetter, Place
from ringfence.fencing.records.topic_creation import TopicMaker
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.fencing.task.clients import connector_producer
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 25
AT_ONCE: Final = 2
_PATIENCE_SECONDS: Final = 5.0
_SHOWN_BYTES: Final = 8192
_TIMEOUT_MS: Final = 60_000
_NEEDED: Final = ("key.converter", "value.converter", "header.converter", ENABLE)
"""The worker's settings that a conversion needs."""
_DETAILS: Final = {
    "stage": "stage",
    "class": "class.name",
    "error": "exception.class.name",
    "message": "exception.message",
    "trace": "exception.stacktrace",
    "topic": "topic",
    "task": "task.id",
    "source_partition": "source.partition",
    "source_offset": "source.offset",
}

Config = Mapping[str, str]


class DeadLetters:
    """One object per worker, thread-safe."""

    def __init__(self, plugins: PluginHost, worker: WorkerConfig, topics: TopicRules | None = None) -> None:
        self._plugins = plugins
        self._worker = worker
        self._topics = topics or TopicRules(worker)
        self._places = FairPlaces(AT_ONCE)

    def page(
        self,
        config: Config,
        stage: str,
        by: str,
        before: Mapping[int, int] | None,
        limit: Deadline,
        *,
        committed_only: bool,
    ) -> dict[str, object]:
        """Return the newest matching dead letters as JSON, with `before` for the next page. Raises `Refusal`."""
        topic, selection = self._topic_of(config), DeadLetterFilter(config["name"], stage, by)
        resolution = ConfigProviders(self._worker.settings).attempt(config)[0]
        try:
            base = self._worker.connection("ringfence-dead-letters")
            accesses = list_admin_access(None, resolution.config, base, self._worker.settings)
        except FencingError as error:
            raise Refusal(400, resolution.hide(f"The cluster of topic {topic} cannot be reached: {error}")) from error
        troubles = []
        for access in accesses:
            limits = Limits(PAGE_SIZE, _SHOWN_BYTES)
            try:
                read = page(
                    access.connection, topic, selection, limit, limits, before=before, committed_only=committed_only
                )
            except FencingError as error:
                troubles.append(f"with {access.whose}: {error}")
            else:
                return {"topic": topic, **_serialize(read)}
        raise Refusal(500, resolution.hide(f"Topic {topic} cannot be read {'; '.join(troubles)}"))

    def replay(
        self,
        config: Config,
        choice: Mapping[str, Any],
        details: Mapping[str, str],
        secret: Sequence[str],
        limit: Deadline,
    ) -> dict[str, object]:
        """Replay dead letters; return the result as JSON. Raises `Refusal`.

        choice: `places`, a list of [partition, offset]; or `stage` and `class`, for all that match.
        """
        with place_for(self._places, "replays", Deadline.after(limit.slice(_PATIENCE_SECONDS))):
            return self._replay(config, choice, details, secret, limit)

    def _replay(
        self,
        config: Config,
        choice: Mapping[str, Any],
        details: Mapping[str, str],
        secret: Sequence[str],
        limit: Deadline,
    ) -> dict[str, object]:
        name, topic = ConnectorName(config["name"]), self._topic_of(config)
        settings = self._worker.settings
        resolution = ConfigProviders(settings).attempt(config)[0]
        base = self._worker.connection("ringfence-replay")
        transactional_id = replay_transactional_id(self._worker.group_id, name)

        def convert(letters: Sequence[DeadLetter]) -> list[LetterConversion]:
            records, specs = self._convert(config, letters, secret, topic, limit)
            if specs.by_topic:
                admin = connection_of(Role.ADMIN, base, settings, resolution.config)
                maker = TopicMaker(admin, specs, SYSTEM_CLOCK, lambda text: log.info("Replay of %s: %s", name, text))
                for target in sorted({str(each.call[0]) for each in records if each.call is not None}):
                    maker.ensure(target)
            return records

        try:
            reading = connection_of(Role.CONSUMER, base, settings, resolution.config)
            replays = Replays(
                lambda: connector_producer(base, settings, resolution.config, transactional_id, _TIMEOUT_MS),
                reading,
                topic,
                name,
                limit,
            )
            if "places" in choice:
                places: list[Place] = [(int(partition), int(offset)) for partition, offset in choice["places"]]
                results = replays.replay(places, convert, details)
            else:
                selection = DeadLetterFilter(name, str(choice.get("stage") or ""), str(choice.get("class") or ""))
                results = replays.all(selection, convert, details)
        except Invalid as error:
            raise Refusal(400, resolution.hide(f"Nothing was replayed: {error}")) from error
        except Fenced as error:
            log.info("A replay of connector %s was ended by a newer one: %s", name, error)
            text = f"A newer replay of connector {name} has started, which ended this one. Load the dead letters again"
            raise Refusal(409, text, retry=True) from error
        except UnknownOutcome as error:
            text = "Whether the records were written is not known yet. Look at the letters again: nothing that was "
            raise Refusal(500, resolution.hide(f"{text}written is written twice by another replay. {error}")) from error
        except FencingError as error:
            raise Refusal(500, resolution.hide(f"Nothing was replayed: {error}")) from error
        return {"topic": topic, "results": [_result(each) for each in results], "left": replays.left}

    def _topic_of(self, config: Config) -> str:
        topic = config.get(DEAD_LETTERS, "").strip()
        name = config.get("name", "")
        if not topic:
            text = f"Connector {name} keeps no dead letters: set errors.tolerance=all and {DEAD_LETTERS}"
            raise Refusal(400, text)
        if what := self._topics.access(name).internal(topic):
            raise Refusal(403, f"{DEAD_LETTERS}: {topic} is {what}: its records are not shown. Name another topic")
        return topic

    def _convert(
        self, config: Config, letters: Sequence[DeadLetter], secret: Sequence[str], topic: str, limit: Deadline
    ) -> tuple[list[LetterConversion], "_ChosenSpecs"]:
        """Convert with the connector's current transforms and converters. Also return how its rules create topics."""
        if not letters:
            return [], _ChosenSpecs({})
        converters = {key: value for key, value in self._worker.settings.items() if key.startswith(_NEEDED)}
        reserved_topics = [topic, config.get(OFFSETS_STORAGE_TOPIC, "").strip() or topic]
        payloads = [_encode(letter) for letter in letters]
        results = self._plugins.ask(
            ConvertDeadLetters(config, payloads, converters, secret, reserved_topics), min(30.0, limit.remaining)
        )
        access = self._topics.access(config.get("name", ""))
        creations = [cast("dict[str, Any]", each["creation"]) for each in results if each["creation"] is not None]
        specs = {each["name"]: TopicSpec(**each) for each in creations}
        return [_check_topic(_decode(each), access) for each in results], _ChosenSpecs(specs)


@dataclass(frozen=True, slots=True)
class _ChosenSpecs:
    """How to create topics, as a plugin process has chosen it. Empty if the broker may create them."""

    by_topic: Mapping[str, TopicSpec]

    def spec(self, topic: str) -> TopicSpec:
        return self.by_topic[topic]


def _serialize(page: Page) -> dict[str, object]:
    return {
        "letters": [_letter(record, replay) for record, replay in page.letters],
        "partitions": [{"partition": each.partition, "first": each.first, "end": each.end} for each in page.stretches],
        "partition_count": page.partitions,
        "before": None if page.older is None else [[p, offset] for p, offset in sorted(page.older.items())],
        "complete": page.complete,
    }


def _letter(record: TailRecord, replay: Replay) -> dict[str, object]:
    ours = {name: value for name, value, _ in record.headers if name.startswith(PREFIX)}
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "seen": record.visibility.value,
        "replayed": replay.value,
        **{key: (ours.get(PREFIX + name) or b"").decode("utf-8", "replace") for key, name in _DETAILS.items()},
        "key": encode_bytes(record.key),
        "key_size": record.key_size,
        "value": encode_bytes(record.value),
        "value_size": record.value_size,
        "headers": [
            [name, encode_bytes(value), size] for name, value, size in record.headers if not name.startswith(PREFIX)
        ],
    }


def _result(result: ReplayResult) -> dict[str, object]:
    partition, offset = result.place
    became: ReplayOutcome = result.became
    return {
        "partition": partition,
        "offset": offset,
        "became": became.value,
        "topic": result.topic,
        "why": result.why,
    }


def _encode(letter: DeadLetter) -> dict[str, object]:
    return {
        "place": list(letter.place),
        "timestamp_ms": letter.timestamp_ms,
        "key": encode_bytes(letter.key),
        "value": encode_bytes(letter.value),
        "headers": [[name, encode_bytes(value)] for name, value in letter.headers],
    }


def _check_topic(conversion: LetterConversion, access: TopicAccess) -> LetterConversion:
    """Return the record, or the reason why it must not go to its topic."""
    reason = access.refusal(str(conversion.call[0])) if conversion.call is not None else ""
    return LetterConversion(why=f"The record is not written: {reason}") if reason else conversion


def _decode(answer: Mapping[str, Any]) -> LetterConversion:
    if answer["why"]:
        return LetterConversion(why=str(answer["why"]))
    call = answer["call"]
    if call is None:
        return LetterConversion()
    headers = [(str(name), decode_bytes(value)) for name, value in call["headers"]]
    place = str(call["topic"]), decode_bytes(call["value"]), decode_bytes(call["key"]), int(call["partition"])
    return LetterConversion((*place, int(call["timestamp"]), headers))
