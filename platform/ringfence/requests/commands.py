"""The commands of web processes to the leader. `engine.leader.commands` carries them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NotRequired, TypedDict

from ringfence.requests.question import Json as Validated
from ringfence.requests.request import Answer, MalformedRequest, Request, always


class AlterShareGroupOffsets(TypedDict):
    """topics, partitions: None for all of the group; to: as `fencing.share.group_moves.RequestedStart` parses it."""

    kind: Literal["alter"]
    topics: Sequence[str] | None
    partitions: NotRequired[Sequence[int] | None]
    to: str | Mapping[str, int]


class DeleteShareGroupOffsets(TypedDict):
    kind: Literal["delete_offsets"]
    topics: Sequence[str]


class DeleteShareGroup(TypedDict):
    kind: Literal["delete"]


class ConfigureShareGroup(TypedDict):
    """settings: None for the broker's own value."""

    kind: Literal["configure"]
    settings: Mapping[str, str | None]


Move = AlterShareGroupOffsets | DeleteShareGroupOffsets | DeleteShareGroup
"""The acts that change where the group starts."""

Act = Move | ConfigureShareGroup


class Place(TypedDict):
    topic: str
    partition: int


class MovedPartition(TypedDict):
    """The fields of `fencing.share.group_moves.PartitionMove`."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    start: int
    to: int
    forgets: bool


class Setting(TypedDict):
    """own: false for the broker's value."""

    name: str
    value: str
    own: bool


class Done(TypedDict, total=False):
    """moves, unsure: of a move, each partition's, and those whose leader may still deliver records from before;
    settings: all settings of the group after it was configured.
    """

    moves: Sequence[MovedPartition]
    unsure: Sequence[Place]
    settings: Sequence[Setting]


Json = dict[str, object]


class InvalidConfig(TypedDict):
    """errors: one text for each, which may quote values of secret settings; count: as the plugin counts them."""

    errors: list[str]
    count: int


class CreationResult(TypedDict, total=False):
    """changed: false if the configuration was the same already; tasks: how many tasks the connector has now; secrets:
    the settings that its plugin declares as secret; invalid: why nothing was saved.
    """

    created: bool
    changed: bool
    tasks: int
    secrets: list[str]
    invalid: InvalidConfig


class OffsetCheck(TypedDict):
    """Whether the connector itself checked the offsets (KIP-875)."""

    checked: bool


class Connectors(TypedDict):
    connectors: int


class NewLeader(TypedDict):
    leader: str


class NewGeneration(TypedDict):
    generation: int | None


class FencedIds(TypedDict):
    """id, producer_id and epoch each."""

    fenced: list[Json]


class HangingTransactions(TypedDict):
    """As `FindHanging` lists them."""

    ended: list[Json]


def validation_result(validation: Validated) -> CreationResult:
    """Return what whoever saves a configuration needs of Kafka Connect's validation object."""
    entries = validation.get("configs", [])
    keys = (entry["definition"] for entry in entries)
    result: CreationResult = {"secrets": [str(key["name"]) for key in keys if key.get("type") == "PASSWORD"]}
    if count := int(validation.get("error_count") or 0):
        errors = [str(error) for entry in entries for error in entry["value"].get("errors", [])]
        result["invalid"] = {"errors": errors, "count": count}
    return result


Config = Mapping[str, str]


class OffsetEntry(TypedDict):
    """A source partition and its new offset; None, or a missing offset, deletes it (KIP-875)."""

    partition: Mapping[str, object]
    offset: NotRequired[Mapping[str, object] | None]


class SentCommand(TypedDict):
    """A command as it is sent. body: its fields; request_id: the same if a client library sends it again."""

    kind: str
    connector: str | None
    body: Mapping[str, object]
    user: NotRequired[str]
    request_id: NotRequired[str]


@dataclass(frozen=True)
class Command(Request[Answer]):
    """`health`: it only asks whether there is a leader, and is always handled at once."""

    health: ClassVar[bool] = False

    @property
    def on(self) -> str | None:
        """The connector that it is for."""
        return None

    def body(self) -> dict[str, object]:
        """Its fields without the connector's name."""
        return {name: value for name, value in self.to_wire().items() if name != "connector"}


@dataclass(frozen=True)
class OnConnector(Command[Answer]):
    connector: str

    @property
    def on(self) -> str:
        return self.connector


@dataclass(frozen=True)
class Ping(Command[Connectors]):
    name = "ping"
    health = True


@dataclass(frozen=True)
class SetLogLevel(Command[None]):
    """Set a log level in every process of the cluster (KIP-976)."""

    name = "set_log_level"
    logger: str
    level: str


@dataclass(frozen=True)
class HandOver(Command[NewLeader]):
    """Have the leader resign."""

    name = "hand_over"
    reason: str


@dataclass(frozen=True)
class DrainWorker(Command[None]):
    """drained: false lets it take tasks again."""

    name = "drain_worker"
    worker: str
    drained: bool
    reason: str


@dataclass(frozen=True)
class Create(OnConnector[CreationResult]):
    """The leader validates the configuration before it saves it; see `CreationResult.invalid`.

    initial_state: RUNNING (as None), PAUSED or STOPPED; topic_grant: of the account that saves it, as a config
    record; quota: of that account, None for no limit; java: whether it may have Java plugins run.
    """

    name = "create"
    config: Config
    initial_state: str | None = always(None)
    topic_grant: Mapping[str, object] | None = None
    quota: Mapping[str, object] | None = None
    java: bool = always(False)


@dataclass(frozen=True)
class Configure(OnConnector[CreationResult]):
    """create: create a missing connector; expected: the config offset to replace; if there is a newer one, it
    is a 409. The rest is as in `Create`.
    """

    name = "configure"
    config: Config
    create: bool = always(False)
    expected: int | None = None
    topic_grant: Mapping[str, object] | None = None
    quota: Mapping[str, object] | None = None
    java: bool = always(False)


@dataclass(frozen=True)
class Pause(OnConnector[None]):
    name = "pause"


@dataclass(frozen=True)
class Resume(OnConnector[None]):
    name = "resume"


@dataclass(frozen=True)
class Stop(OnConnector[None]):
    """Answered when nothing of the old generation can commit."""

    name = "stop"


@dataclass(frozen=True)
class Delete(OnConnector[None]):
    """Answered when nothing of the old generation can commit."""

    name = "delete"


@dataclass(frozen=True)
class Restart(OnConnector[None]):
    name = "restart"
    include_tasks: bool = always(False)
    only_failed: bool = always(False)
    reason: str = ""


@dataclass(frozen=True)
class RestartTask(OnConnector[None]):
    name = "restart_task"
    task: int
    reason: str = ""


@dataclass(frozen=True)
class ResetTopics(OnConnector[None]):
    """Forget the connector's active topics (KIP-558)."""

    name = "reset_topics"


@dataclass(frozen=True)
class SetConnectorLogLevel(OnConnector[None]):
    """level: None removes it."""

    name = "set_connector_log_level"
    level: str | None
    until_ms: int = 0


@dataclass(frozen=True)
class AlterOffsets(OnConnector[OffsetCheck]):
    name = "alter_offsets"
    offsets: Sequence[OffsetEntry]


@dataclass(frozen=True)
class ResetOffsets(OnConnector[OffsetCheck]):
    name = "reset_offsets"


@dataclass(frozen=True)
class Fence(OnConnector[None]):
    """Kafka Connect's signed request (KIP-618). payload: base64 of the request's own body."""

    name = "fence"
    payload: str
    signature: str
    algorithm: str


@dataclass(frozen=True)
class FenceNow(OnConnector[NewGeneration]):
    """Fence every id of the connector, by a new round. wait: for the round's end."""

    name = "fence_now"
    reason: str
    wait: bool = True


@dataclass(frozen=True)
class FenceId(OnConnector[FencedIds]):
    """Fence one transactional id."""

    name = "fence_id"
    id: str
    reason: str


@dataclass(frozen=True)
class EndHanging(OnConnector[HangingTransactions]):
    """End a producer's hanging transaction on one partition (KIP-664). earlier: configurations of live generations."""

    name = "end_hanging"
    reason: str
    topic: str
    partition: int
    producer_id: int
    tasks: int
    topics: Sequence[str]
    earlier: Sequence[Config]


@dataclass(frozen=True)
class RetryRound(OnConnector[None]):
    """Retry a failed round now."""

    name = "retry_round"
    reason: str


@dataclass(frozen=True)
class SweepNow(OnConnector[None]):
    """Have a connector's tasks look at offsets of its share group now: [topic id, partition, first, last] each."""

    name = "sweep_now"
    reason: str
    places: Sequence[Sequence[object]]


@dataclass(frozen=True)
class SendSignal(OnConnector[None]):
    """Send a signal to the connector's tasks: kind and data as its plugin expects them."""

    name = "send_signal"
    kind: str
    data: Mapping[str, object]


@dataclass(frozen=True)
class ActOnShareGroup(Command[Done]):
    """owners: the connectors whose permissions the sender has checked."""

    name = "share_group"
    group: str
    act: Act
    owners: Sequence[str]
    reason: str
    connector: str | None = None

    @property
    def on(self) -> str | None:
        return self.connector


COMMANDS: Final[tuple[type[Command[object]], ...]] = (
    Ping, SetLogLevel, HandOver, DrainWorker, Create, Configure, Pause, Resume, Stop, Delete, Restart, RestartTask,
    ResetTopics, SetConnectorLogLevel, AlterOffsets, ResetOffsets, Fence, FenceNow, FenceId, EndHanging, RetryRound,
    ActOnShareGroup, SweepNow, SendSignal,
)  # fmt: skip
_BY_NAME: Final = {kind.name: kind for kind in COMMANDS}


def parse(kind: str, connector: str | None, body: Mapping[str, object]) -> Command[object]:
    """Parse a command as it was sent. Raises `MalformedRequest`."""
    if kind not in _BY_NAME:
        raise MalformedRequest(f"Unknown command {kind!r}")
    return _BY_NAME[kind].from_wire(body if connector is None else {**body, "connector": connector})
