"""Share groups, for API and pages: who may see which, the workers' reports, their archived records, and acts on them.

The reports are kept in the database: pages show them if Kafka does not answer. A grant's pattern matches share groups
by name, like connectors. A connector's own group, `<group.id>-<connector>`, is also covered by a grant on the
connector. Naming another group in a configuration (`share.group`) gives no access to it.

Archived records are those that a connector's group no longer delivers, and that are not done in its ledger. The sweep
reads them in any case, after `share.sweep.after.ms`; a request saves time, and decides nothing: the tasks check the
ledger first.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest

from ringfence import dispatch
from ringfence.access.authorise import Forbidden, authorise, principal_of
from ringfence.access.principal import Principal, Verb
from ringfence.api import connector_reads
from ringfence.api.v1 import offsets
from ringfence.audit.trail import note, record_change
from ringfence.connectors.sdk.kafka_settings.share_group import GROUP, group_of
from ringfence.connectors.sdk.names import list_first
from ringfence.dispatch import Refusal
from ringfence.engine.leader.commands import ActOnShareGroup, SweepNow
from ringfence.engine.leader.commands.offsets import Act, Done, Move, Setting
from ringfence.engine.questions import DescribeShareGroup, FindArchived, ListShareGroups
from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.offsets.ledger_keys import InputPartition, parse_partition
from ringfence.fencing.share.group_moves import PartitionMove
from ringfence.fencing.share.ledger import State, decode_state
from ringfence.fencing.share.offset_ranges import Ranges
from ringfence.fencing.topics.sweep_requests import MOST
from ringfence.history.models import ShareGroupAnswer
from ringfence.projection.models import Connector

_MOST_KNOWN = 10_000
_configured: dict[tuple[str, int], str | None] = {}


@dataclass(frozen=True, slots=True)
class Readers:
    """The connectors of every share group. worker_group: the cluster's `group.id`."""

    worker_group: str
    by_group: Mapping[str, Sequence[str]]

    def of(self, group: str) -> Sequence[str]:
        """Return the connectors that read this group, or would."""
        return self.by_group.get(group, ())

    def _own(self, group: str) -> list[str]:
        """Return the connectors that own this group by its name."""
        return [name for name in self.of(group) if group_of(self.worker_group, name, None) == group]

    def may(self, who: Principal, verb: Verb, group: str) -> bool:
        """Return whether the permission is granted on the group."""
        return who.may(verb, group) or any(who.may(verb, name) for name in self._own(group))

    def verbs_on(self, who: Principal, group: str) -> frozenset[Verb]:
        """Return the permissions that are granted on the group."""
        return frozenset(verb for verb in Verb if self.may(who, verb, group))

    def authorise(self, request: HttpRequest, verb: Verb, group: str) -> None:
        """Raise `Forbidden` unless the permission is granted on the group."""
        who = principal_of(request)
        if not self.may(who, verb, group):
            raise Forbidden(who, verb, group, kind="share group")

    def authorise_act(self, request: HttpRequest, group: str, *, offsets: bool) -> None:
        """Check an action, which also concerns the group's connectors. offsets: whether it changes their
        source offsets.
        """
        draft = getattr(request, "ringfence_draft", None)
        for name in self.of(group) or [""]:
            if draft is not None:
                draft.about(name)
        self.authorise(request, Verb.SHARE_GROUPS, group)
        if offsets:
            for name in self.of(group):
                authorise(request, Verb.OFFSETS, name)


def find_readers(worker_group: str) -> Readers:
    """Return the readers by the configurations in the database."""
    groups: dict[str, list[str]] = {}
    for name, configured in _configured_groups():
        groups.setdefault(group_of(worker_group, name, configured), []).append(name)
    return Readers(worker_group, groups)


def _configured_groups() -> Iterator[tuple[str, str | None]]:
    """Yield each connector's name and `share.group`. A configuration is decrypted once."""
    if len(_configured) > _MOST_KNOWN:
        _configured.clear()
    for row in Connector.objects.filter(known=True).order_by("name").only("name", "config"):
        key = (row.name, hash(row.config))
        if key not in _configured:
            _configured[key] = row.settings.get(GROUP)
        yield row.name, _configured[key]


LIST = ""
KEPT = 500
_FRESH_MS = 2_000


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """An answer and its time (ms since the epoch). problem: why there is no newer one, "" if it is current."""

    answer: dict[str, Any] | None
    time_ms: int = 0
    problem: str = ""
    status: int = 200


def ask_for_list(timeout: float | None = None) -> dict[str, Any]:
    """Query all share groups now. Raises `Refusal`."""
    return _keep(LIST, dispatch.ask(ListShareGroups(), timeout))


def ask_for_one(group: str, timeout: float | None = None, skip: int = 0) -> dict[str, Any]:
    """Query one share group now, with record states in the partitions from number `skip` on.

    Raises `Refusal`, with 404 if it does not exist.
    """
    return _keep(_key(group, skip), dispatch.ask(DescribeShareGroup(group, skip=skip), timeout))


def _key(group: str, skip: int) -> str:
    return f"{group}\n{skip}" if skip else group


def look_at_list(timeout: float) -> LastAnswer:
    """Return all share groups, or the last known list. An answer of the last two seconds is recent
    enough for a page.
    """
    return _look(LIST, lambda: ask_for_list(timeout))


def look_at_one(group: str, timeout: float, skip: int = 0) -> LastAnswer:
    """Return the same for one group. `status` 404: it no longer exists."""
    return _look(_key(group, skip), lambda: ask_for_one(group, timeout, skip))


def recall(key: str) -> LastAnswer:
    """Return the last known answer, without a query."""
    row = ShareGroupAnswer.objects.filter(key=key).first()
    return LastAnswer(None) if row is None else LastAnswer(json.loads(row.answer), row.time_ms)


def readers_now() -> Readers:
    """Return the readers. Raises `Refusal` if the cluster's `group.id` is unknown, and no worker reports it."""
    answer = recall(LIST).answer
    return find_readers(str((answer or ask_for_list())["worker_group"]))


def _look(key: str, ask: Callable[[], dict[str, Any]]) -> LastAnswer:
    before = recall(key)
    if before.answer is not None and 0 <= epoch_ms() - before.time_ms < _FRESH_MS:
        return before
    try:
        return LastAnswer(ask(), epoch_ms())
    except Refusal as error:
        return LastAnswer(before.answer, before.time_ms, error.message, error.status)


def _keep(key: str, answer: dict[str, Any]) -> dict[str, Any]:
    ShareGroupAnswer.objects.update_or_create(
        key=key, defaults={"answer": json.dumps(answer, separators=(",", ":")), "time_ms": epoch_ms()}
    )
    old = ShareGroupAnswer.objects.exclude(key=LIST).order_by("-time_ms").values_list("pk", flat=True)[KEPT:]
    if old:
        ShareGroupAnswer.objects.filter(pk__in=list(old)).delete()
    return answer


_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """One partition's move with its numbers. sure: whether its leader knows of it (true before it is done)."""

    move: PartitionMove
    again: int
    skipped: int
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The effect of an action, in advance or afterwards. refusal: why it is not possible now, "" if it is."""

    connectors: Sequence[str]
    members: Sequence[Mapping[str, Any]]
    moves: Sequence[MoveCounts]
    refusal: str = ""

    @property
    def again(self) -> int:
        return sum(one.again for one in self.moves)

    @property
    def skipped(self) -> int:
        return sum(one.skipped for one in self.moves)


def ledger_of(connectors: Sequence[str]) -> dict[InputPartition, State]:
    """Return the merged ledgers of the connectors; {} for a group without a connector."""
    ledger: dict[InputPartition, State] = {}
    for name in connectors:
        for one in connector_reads.offsets(name)["offsets"]:
            key = parse_partition(one["partition"])
            if key is not None and one["offset"] is not None:
                ledger[key[0]] = decode_state(one["offset"])
    return ledger


def foresee(readers: Readers, group: str, act: Move) -> Foreseen:
    """Return the effect of an action, without changing anything. Raises `Refusal`."""
    answer = dispatch.ask(DescribeShareGroup(group, act))
    connectors = readers.of(group)
    moves = _count([PartitionMove(**each) for each in answer["moves"]], connectors)
    refusal = _refusal(group, connectors, answer["members"])
    return Foreseen(connectors, answer["members"], moves, refusal)


def _count(moves: Sequence[PartitionMove], connectors: Sequence[str]) -> list[MoveCounts]:
    ledger = ledger_of(connectors)

    def state(move: PartitionMove) -> State | None:
        if not connectors:
            return None
        return ledger.get(InputPartition(move.topic_id, move.partition), State(move.topic, move.first))

    return [MoveCounts(move, *move.count(state(move))) for move in moves]


def _refusal(group: str, connectors: Sequence[str], members: Sequence[Mapping[str, Any]]) -> str:
    if len(connectors) > 1:
        return f"The connectors {', '.join(connectors)} read this group, which is for one: give each its own."
    for row in Connector.objects.filter(name__in=connectors, known=True):
        if not offsets.movable(row):
            return f"Connector {row.name} must be STOPPED, and its last tasks fenced. Stop it first."
    if members:
        clients = list_first([f"{each['client']} ({each['host']})" for each in members], _MOST_NAMED)
        stop = "Stop the connector" if connectors else "Stop them"
        count = len(members)
        are = f"1 member is in share group {group}" if count == 1 else f"{count} members are in share group {group}"
        return f"{are}: {clients}. {stop} first; a member that died counts until its session expires."
    return ""


def carry_out(request: HttpRequest, readers: Readers, group: str, act: Move, reason: str) -> Foreseen:
    """Take a snapshot of the connector's offsets, then send the leader's command. Raises `Refusal`."""
    who, connectors = principal_of(request).name, readers.of(group)
    before = ledger_of(connectors)
    for name in connectors:
        offsets.snapshot_before_change(name, who, f"before share group {group} was moved")
    done = _command(request, readers, group, act, reason)
    unsure = {(each["topic"], each["partition"]) for each in done["unsure"]}
    moves = []
    for each in done["moves"]:
        move = PartitionMove(**each)
        state = before.get(InputPartition(move.topic_id, move.partition), State(move.topic, move.first))
        again, skipped = move.count(state if connectors else None)
        moves.append(MoveCounts(move, again, skipped, (move.topic, move.partition) not in unsure))
    foreseen = Foreseen(connectors, (), moves)
    note(request, f"{reason}. Share group {group}, {act['kind']}: {foreseen.again} again, {foreseen.skipped} skipped")
    if not connectors:
        moved = {f"{one.move.topic}-{one.move.partition}": one.move for one in moves}
        record_change(
            request,
            before={"share group": group, "starts": {name: move.start for name, move in moved.items()}},
            after={
                "share group": group,
                "starts": {name: None if move.forgets else move.to for name, move in moved.items()},
            },
        )
    return foreseen


def configure(
    request: HttpRequest, readers: Readers, group: str, settings: Mapping[str, str | None], reason: str
) -> Sequence[Setting]:
    """Set the group's own settings, None for the broker's. Returns all settings afterwards. Raises `Refusal`."""
    before = dispatch.ask(DescribeShareGroup(group))["settings"]
    after = _command(request, readers, group, {"kind": "configure", "settings": dict(settings)}, reason)["settings"]
    note(request, f"{reason}. Share group {group}: {', '.join(sorted(settings))}")
    record_change(request, before=_own(before), after=_own(after))
    return after


def _own(settings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in settings if each["own"]}


def _command(request: HttpRequest, readers: Readers, group: str, act: Act, reason: str) -> Done:
    connectors = list(readers.of(group))
    connector = connectors[0] if connectors else None
    command = ActOnShareGroup(group, act, connectors, reason, connector)
    return dispatch.command(command, user=principal_of(request).name).value


@dataclass(frozen=True, slots=True)
class ArchivedPartition:
    """One partition. archived: how many records were delivered as often as allowed; offsets: those that the group no
    longer delivers and that are not done. Some of these may hold no record (transaction markers).
    """

    place: InputPartition
    topic: str
    archived: int
    offsets: Ranges


@dataclass(frozen=True, slots=True)
class ArchivedRecords:
    """refusal: why nothing can be requested now, "" if it can. left_out: partitions that were not read."""

    connectors: Sequence[str]
    partitions: Sequence[ArchivedPartition]
    refusal: str
    left_out: int

    @property
    def waiting(self) -> int:
        return sum(one.offsets.size for one in self.partitions)

    def only(self, topic: str) -> "ArchivedRecords":
        """Limit it to one topic; "" for all."""
        return replace(self, partitions=[one for one in self.partitions if not topic or one.topic == topic])


def find_waiting(place: Mapping[str, Any], state: State | None) -> Ranges:
    """Return the waiting offsets of one partition, from the broker's `start`, `stable` and `archived`, and the ledger's
    state.
    """
    if state is None:
        return Ranges()
    left = Ranges()
    for first, last in ([state.low, place["start"] - 1], *place["archived"]):
        left.update(Ranges(state.done.missing(max(first, state.low), min(last, place["stable"] - 1))))
    return left


def find_archived(readers: Readers, group: str) -> ArchivedRecords:
    """Find the waiting records, without changing anything. Raises `Refusal`."""
    connectors = readers.of(group)
    answer = dispatch.ask(FindArchived(group))
    ledger = ledger_of(connectors)
    partitions = []
    for each in answer["places"]:
        place = InputPartition(each["topic_id"], each["partition"])
        archived = sum(last - first + 1 for first, last in each["archived"])
        partitions.append(ArchivedPartition(place, each["topic"], archived, find_waiting(each, ledger.get(place))))
    return ArchivedRecords(connectors, partitions, _refusal_to_sweep(group, connectors), int(answer["left_out"]))


def _refusal_to_sweep(group: str, connectors: Sequence[str]) -> str:
    if not connectors:
        return (
            f"No connector reads share group {group}: its consumers are unknown here. To have them "
            "delivered again, alter the group's offsets."
        )
    if len(connectors) > 1:
        return f"The connectors {', '.join(connectors)} read this group, which is for one: give each its own."
    row = Connector.objects.filter(name=connectors[0], known=True).first()
    if row is None or row.target != "RUNNING":
        return f"Connector {connectors[0]} is not running. Resume it first; then its sweep reads them in any case."
    return ""


def process_now(request: HttpRequest, readers: Readers, group: str, reason: str, topic: str = "") -> ArchivedRecords:
    """Send the request to the connector's tasks, and return what was requested. topic: "" for all. Raises `Refusal`."""
    backlog = find_archived(readers, group)
    if backlog.refusal:
        raise Refusal(409, backlog.refusal)
    selection = backlog.only(topic)
    places = [[*one.place, first, last] for one in selection.partitions for first, last in one.offsets][:MOST]
    if places:
        dispatch.command(SweepNow(backlog.connectors[0], reason, places), user=principal_of(request).name)
    note(request, f"{reason}. Share group {group}: {selection.waiting} offsets to be processed now")
    return selection
