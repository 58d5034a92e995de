"""The requests of a transactional producer, and their responses, in the versions of brokers 2.8 to 4.x. Pure.

Each request has its key in Kafka's protocol and the range of versions that are written here; `encode` returns its body
in parts, so that record batches are not copied, and `decode` reads the response's body.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol, TypeVar

from ringfence.fencing.transactions.error_codes import ErrorCode
from ringfence.fencing.transactions.wire import (
    NO_TAGS,
    MalformedResponse,
    Reader,
    array,
    boolean,
    classic_string,
    data,
    i16,
    i32,
    i64,
    string,
    uvarint,
)

Place = tuple[str, int]
"""Topic and partition."""

V2: Final = 2
"""The level of transaction.version from which on each transaction has an epoch of its own (KIP-890)."""
NO_TOPIC_ID: Final = bytes(16)
TRANSACTION_KEY: Final = b"\1"
GROUP_KEY: Final = b"\0"
_BROKER: Final = b"\4"
_IDENTITY: Final = struct.Struct(">ihqh")
"""Throttle time, error, producer id, epoch."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Response:
    """throttle_ms: how long the broker wants no further request."""

    throttle_ms: int


class Request(Protocol):
    """api: the key in Kafka's protocol. versions: the first and the last that is written here."""

    api: ClassVar[int]
    versions: ClassVar[tuple[int, int]]

    def encode(self, version: int) -> list[bytes]: ...

    def decode(self, version: int, reader: Reader) -> Response: ...


def _by_topic(places: Iterable[tuple[Place, _T]]) -> dict[str, list[tuple[int, _T]]]:
    topics: dict[str, list[tuple[int, _T]]] = {}
    for (topic, partition), item in places:
        topics.setdefault(topic, []).append((partition, item))
    return topics


def _topics(places: Iterable[tuple[Place, _T]], encode: Callable[[int, _T], bytes]) -> bytes:
    """Return an array of topics, each with an array of partitions."""
    return array(
        [
            string(topic) + array([encode(*each) for each in partitions]) + NO_TAGS
            for topic, partitions in _by_topic(places).items()
        ]
    )


def _read_codes(reader: Reader) -> dict[Place, int]:
    """Read an array of topics with an array of partitions and their error codes."""
    codes: dict[Place, int] = {}

    def read_topic() -> None:
        topic = reader.text()

        def read_partition() -> None:
            partition = reader.i32()
            codes[topic, partition] = reader.i16()
            reader.tags()

        reader.array(read_partition)
        reader.tags()

    reader.array(read_topic)
    return codes


@dataclass(frozen=True, slots=True)
class ErrorResponse(Response):
    """error: 0 if the request succeeded."""

    error: int


@dataclass(frozen=True, slots=True)
class IdentityResponse(ErrorResponse):
    """The producer id and epoch from now on; -1 if the response has none."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class CodesResponse(Response):
    """An error code for each partition."""

    codes: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse(ErrorResponse):
    """ranges: the versions of each request that the broker takes; features: the finalized levels."""

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]

    @property
    def transaction_version(self) -> int:
        """The level of transaction.version: see `V2`."""
        return self.features.get("transaction.version", 0)


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """Asks what the broker supports. A broker that does not know the version answers with version 0."""

    api: ClassVar = 18
    versions: ClassVar = (3, 3)
    software: str

    def encode(self, version: int) -> list[bytes]:
        return [string("ringfence"), string(self.software), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> ApiVersionsResponse:
        error = reader.i16()
        if error == ErrorCode.UNSUPPORTED_VERSION:
            return ApiVersionsResponse(0, error, {}, {})
        ranges: dict[int, tuple[int, int]] = {}

        def read_range() -> None:
            api = reader.i16()
            ranges[api] = reader.i16(), reader.i16()
            reader.tags()

        reader.array(read_range)
        throttle = reader.i32()
        finalized = reader.tags().get(2)
        features: dict[str, int] = {}
        if finalized is not None:
            levels = Reader(finalized)

            def read_feature() -> None:
                name = levels.text()
                features[name] = levels.i16()
                levels.i16()
                levels.tags()

            levels.array(read_feature)
        return ApiVersionsResponse(throttle, error, ranges, features)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """leaders: of each partition, -1 for none; epochs: theirs; id: `NO_TOPIC_ID` from brokers that do not tell."""

    error: int
    id: bytes = NO_TOPIC_ID
    leaders: Sequence[int] = ()
    epochs: Sequence[int] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class MetadataResponse(Response):
    """brokers: their addresses."""

    brokers: Mapping[int, tuple[str, int]]
    topics: Mapping[str, TopicMetadata]


@dataclass(frozen=True, slots=True)
class Metadata:
    """Asks for the brokers, and for the leaders of topics. creates: whether brokers may create these."""

    api: ClassVar = 3
    versions: ClassVar = (9, 13)
    topics: Sequence[str]
    creates: bool = True

    def encode(self, version: int) -> list[bytes]:
        head = NO_TOPIC_ID if version >= 10 else b""
        names = array([head + string(each) + NO_TAGS for each in self.topics])
        cluster_operations = boolean(False) if version <= 10 else b""
        return [names, boolean(self.creates), cluster_operations, boolean(False), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> MetadataResponse:
        throttle = reader.i32()
        brokers: dict[int, tuple[str, int]] = {}
        topics: dict[str, TopicMetadata] = {}

        def read_broker() -> None:
            number = reader.i32()
            brokers[number] = reader.text(), reader.i32()
            reader.string()
            reader.tags()

        def read_partition() -> tuple[int, tuple[int, int]]:
            reader.i16()
            number, leader, epoch = reader.i32(), reader.i32(), reader.i32()
            for _ in range(3):
                reader.i32s()
            reader.tags()
            return number, (leader, epoch)

        def read_topic() -> None:
            error, name = reader.i16(), reader.text()
            topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
            reader.boolean()
            leaders = dict(reader.array(read_partition))
            reader.i32()
            reader.tags()
            by_number = [leaders.get(each, (-1, -1)) for each in range(len(leaders))]
            topics[name] = TopicMetadata(
                error, topic_id, [leader for leader, _ in by_number], [epoch for _, epoch in by_number]
            )

        reader.array(read_broker)
        reader.string()
        reader.i32()
        reader.array(read_topic)
        return MetadataResponse(throttle, brokers, topics)


@dataclass(frozen=True, slots=True)
class CoordinatorResponse(ErrorResponse):
    """The coordinator and its address."""

    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """kind: `TRANSACTION_KEY` or `GROUP_KEY`."""

    api: ClassVar = 10
    versions: ClassVar = (3, 5)
    key: str
    kind: bytes

    def encode(self, version: int) -> list[bytes]:
        if version <= 3:
            return [string(self.key), self.kind, NO_TAGS]
        return [self.kind, array([string(self.key)]), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> CoordinatorResponse:
        throttle = reader.i32()
        if version <= 3:
            error = reader.i16()
            reader.string()
            return CoordinatorResponse(throttle, error, reader.i32(), reader.text(), reader.i32())

        def read_coordinator() -> CoordinatorResponse:
            reader.text()
            node, host, port = reader.i32(), reader.text(), reader.i32()
            error = reader.i16()
            reader.string()
            reader.tags()
            return CoordinatorResponse(throttle, error, node, host, port)

        answers = reader.array(read_coordinator)
        if len(answers) != 1:
            raise MalformedResponse(f"{len(answers)} coordinators of one key")
        return answers[0]


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """Takes the transactional id, and ends its open transaction. producer_id, epoch: of the one who continues
    (KIP-360), -1 for a new producer, which fences every other.
    """

    api: ClassVar = 22
    versions: ClassVar = (3, 5)
    transactional_id: str
    timeout_ms: int
    producer_id: int = -1
    epoch: int = -1

    def encode(self, version: int) -> list[bytes]:
        name, timeout = string(self.transactional_id), i32(self.timeout_ms)
        return [name, timeout, i64(self.producer_id), i16(self.epoch), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> IdentityResponse:
        return IdentityResponse(*reader.fields(_IDENTITY))


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Adds partitions to the transaction, which begins with the first one."""

    api: ClassVar = 24
    versions: ClassVar = (3, 3)
    """Later ones are for brokers."""
    transactional_id: str
    producer_id: int
    epoch: int
    places: Sequence[Place]

    def encode(self, version: int) -> list[bytes]:
        topics = _topics(((place, None) for place in self.places), lambda partition, _: i32(partition))
        # The partitions are an array of numbers, without tags.
        return [string(self.transactional_id), i64(self.producer_id), i16(self.epoch), topics, NO_TAGS]

    def decode(self, version: int, reader: Reader) -> CodesResponse:
        return CodesResponse(reader.i32(), _read_codes(reader))


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """Adds a group's offsets to the transaction."""

    api: ClassVar = 25
    versions: ClassVar = (3, 4)
    transactional_id: str
    producer_id: int
    epoch: int
    group: str

    def encode(self, version: int) -> list[bytes]:
        return [string(self.transactional_id), i64(self.producer_id), i16(self.epoch), string(self.group), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> ErrorResponse:
        return ErrorResponse(reader.i32(), reader.i16())


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A consumer group's member and its generation (KIP-447)."""

    group: str
    generation: int = -1
    member: str = ""
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commits a group's offsets with the transaction. implicit: version 5, which also adds them to it (KIP-890)."""

    api: ClassVar = 28
    versions: ClassVar = (3, 5)
    transactional_id: str
    producer_id: int
    epoch: int
    member: GroupMember
    offsets: Mapping[Place, int]
    implicit: bool

    def encode(self, version: int) -> list[bytes]:
        who = self.member

        def encode_offset(partition: int, offset: int) -> bytes:
            return i32(partition) + i64(offset) + i32(-1) + string(None) + NO_TAGS

        return [
            string(self.transactional_id) + string(who.group) + i64(self.producer_id) + i16(self.epoch),
            i32(who.generation) + string(who.member) + string(who.instance),
            _topics(self.offsets.items(), encode_offset),
            NO_TAGS,
        ]

    def decode(self, version: int, reader: Reader) -> CodesResponse:
        return CodesResponse(reader.i32(), _read_codes(reader))


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commits or aborts. implicit: version 5, whose response has the next epoch (KIP-890)."""

    api: ClassVar = 26
    versions: ClassVar = (3, 5)
    transactional_id: str
    producer_id: int
    epoch: int
    committed: bool
    implicit: bool

    def encode(self, version: int) -> list[bytes]:
        who = string(self.transactional_id) + i64(self.producer_id) + i16(self.epoch)
        return [who, boolean(self.committed), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> IdentityResponse:
        if version < 5:
            return IdentityResponse(reader.i32(), reader.i16(), -1, -1)
        return IdentityResponse(*reader.fields(_IDENTITY))


@dataclass(frozen=True, slots=True)
class BatchResponse:
    """A partition leader's answer. offset: of the batch's first record; -1 if it is not known. append_ms: the records'
    time, if the topic has the leader's, else -1.
    """

    error: int
    offset: int = -1
    message: str = ""
    append_ms: int = -1


@dataclass(frozen=True, slots=True)
class ProduceResponse(Response):
    by_place: Mapping[Place, BatchResponse]


@dataclass(frozen=True, slots=True)
class Produce:
    """Writes one record batch for each partition: its head, and its records. implicit: version 12 and above, which
    also adds the partitions to the transaction (KIP-890). topic_ids: of all the topics; version 13 needs them.
    """

    api: ClassVar = 0
    versions: ClassVar = (9, 13)
    transactional_id: str
    timeout_ms: int
    batches: Mapping[Place, tuple[bytes, bytes]] = field(repr=False)
    implicit: bool
    topic_ids: Mapping[str, bytes]

    def encode(self, version: int) -> list[bytes]:
        topics = _by_topic(self.batches.items())
        parts = [string(self.transactional_id), i16(-1), i32(self.timeout_ms), uvarint(len(topics) + 1)]
        for topic, partitions in topics.items():
            parts += (self.topic_ids[topic] if version >= 13 else string(topic), uvarint(len(partitions) + 1))
            for partition, (head, records) in partitions:
                parts += (i32(partition) + uvarint(len(head) + len(records) + 1) + head, records, NO_TAGS)
            parts.append(NO_TAGS)
        return [*parts, NO_TAGS]

    def decode(self, version: int, reader: Reader) -> ProduceResponse:
        by_place: dict[Place, BatchResponse] = {}
        names = {number: name for name, number in self.topic_ids.items()}

        def read_topic() -> None:
            topic = names.get(reader.uuid(), "") if version >= 13 else reader.text()

            def read_partition() -> None:
                partition, error, offset = reader.i32(), reader.i16(), reader.i64()
                append_ms = reader.i64()
                reader.i64()
                reasons = reader.array(lambda: (reader.i32(), reader.string(), reader.tags())[1])
                message = reader.string() or next(filter(None, reasons), "") or ""
                reader.tags()
                by_place[topic, partition] = BatchResponse(error, offset, message, append_ms)

            reader.array(read_partition)
            reader.tags()

        reader.array(read_topic)
        return ProduceResponse(reader.i32(), by_place)


@dataclass(frozen=True, slots=True)
class SettingResponse(ErrorResponse):
    """value: the setting's; None if the broker has no such setting, or this principal may not ask."""

    value: str | None


@dataclass(frozen=True, slots=True)
class BrokerSetting:
    """Asks a broker for one of its settings (DescribeConfigs)."""

    api: ClassVar = 32
    versions: ClassVar = (4, 4)
    node: int
    name: str

    def encode(self, version: int) -> list[bytes]:
        resource = _BROKER + string(str(self.node)) + array([string(self.name)]) + NO_TAGS
        return [array([resource]), boolean(False), boolean(False), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> SettingResponse:
        throttle, errors = reader.i32(), []
        values: dict[str, str | None] = {}

        def read_synonym() -> None:
            reader.string(), reader.string(), reader.raw(1), reader.tags()

        def read_setting() -> None:
            name, value = reader.text(), reader.string()
            reader.raw(3)  # whether it is read-only, its source, whether it is sensitive
            reader.array(read_synonym)
            reader.raw(1)
            reader.string()
            reader.tags()
            values[name] = value

        def read_resource() -> None:
            errors.append(reader.i16())
            reader.string()
            reader.raw(1)
            reader.string()
            reader.array(read_setting)
            reader.tags()

        reader.array(read_resource)
        return SettingResponse(throttle, max(errors, default=0), values.get(self.name))


@dataclass(frozen=True, slots=True)
class HandshakeResponse(ErrorResponse):
    mechanisms: Sequence[str]


@dataclass(frozen=True, slots=True)
class SaslHandshake:
    """Begins a login with this mechanism."""

    api: ClassVar = 17
    versions: ClassVar = (1, 1)
    mechanism: str

    def encode(self, version: int) -> list[bytes]:
        return [classic_string(self.mechanism)]

    def decode(self, version: int, reader: Reader) -> HandshakeResponse:
        error = reader.i16()
        return HandshakeResponse(0, error, [reader.classic_string() or "" for _ in range(max(0, reader.i32()))])


@dataclass(frozen=True, slots=True)
class AuthenticateResponse(ErrorResponse):
    """lifetime_ms: after which the connection needs another login; 0 for none."""

    message: str
    auth: bytes = field(repr=False)
    lifetime_ms: int


@dataclass(frozen=True, slots=True)
class SaslAuthenticate:
    """Sends a token of the mechanism."""

    api: ClassVar = 36
    versions: ClassVar = (2, 2)
    auth: bytes = field(repr=False)

    def encode(self, version: int) -> list[bytes]:
        return [data(self.auth), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> AuthenticateResponse:
        return AuthenticateResponse(0, reader.i16(), reader.text(), reader.data() or b"", reader.i64())


_IMPLICIT_FROM: Final = {Produce.api: 12, CommitOffsets.api: 5, EndTransaction.api: 5}
"""The versions of transactions v2: brokers take the others for requests of a producer without them."""
_TOPIC_IDS_FROM: Final = 13
"""Of Produce, and of Fetch (`fencing.fetching`)."""


def kind_of(request: Request) -> tuple[type, bool, bool]:
    """Return what the versions that a request may have depend on."""
    return type(request), getattr(request, "implicit", False), _has_no_ids(request)


def _has_no_ids(request: Request) -> bool:
    return NO_TOPIC_ID in getattr(request, "topic_ids", {}).values()


def usable_versions(request: Request) -> tuple[int, int]:
    """Return the first and the last version that this very request may have."""
    first, last = request.versions
    border = _IMPLICIT_FROM.get(request.api)
    if border is not None:
        first, last = (border, last) if getattr(request, "implicit", False) else (first, border - 1)
    if _has_no_ids(request):
        last = min(last, _TOPIC_IDS_FROM - 1)
    return first, last
