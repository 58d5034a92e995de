"""The context of the pages: a connector's ledger first, because it decides, and the broker's report beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.core.paginator import Paginator

from ringfence.access.principal import Principal, Verb
from ringfence.api.share_groups import acts
from ringfence.api.share_groups.archived_records import find_waiting
from ringfence.api.share_groups.cached_reports import LastAnswer
from ringfence.api.share_groups.readers import Readers
from ringfence.fencing.offsets.ledger_keys import InputPartition
from ringfence.fencing.share.ledger import State
from ringfence.web.share_groups.locked_records import HeldByTasks, find_held
from ringfence.web.share_groups.offset_strips import Piece, Strip, draw, lay_over, name_offsets, of_ledger, read_pieces
from ringfence.web.state_badges import Badge, Severity, group_look

_MOST_RANGES = 150
PAGE = 20
"""Partitions per page, because a worker reads the record states of that many at once."""
STATES = {
    "Stable": Badge("Stable", "circle-check", Severity.OK, "It has members."),
    "Empty": Badge("Empty", "circle-stop", Severity.REST, "It has no members. Its offsets can be changed."),
}


def look_of(state: str) -> Badge:
    """Return the badge of a group's state."""
    return group_look(state, STATES)


def path_of(group: str) -> str:
    """Return the group's name as one path segment."""
    return quote(group, safe="")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A row of the list."""

    name: str
    path: str
    look: Badge
    connectors: Sequence[str]
    ours: bool
    answer: Mapping[str, Any]


def list_rows(readers: Readers, who: Principal, answer: Mapping[str, Any]) -> list[GroupRow]:
    """Return the visible groups, connectors' first."""
    rows = [
        GroupRow(
            each["group"],
            path_of(each["group"]),
            look_of(each["state"]),
            who.filter_names(readers.of(each["group"])),
            bool(readers.of(each["group"])),
            each,
        )
        for each in answer["groups"]
        if readers.may(who, Verb.VIEW, each["group"])
    ]
    return sorted(rows, key=lambda row: (not row.ours, row.name))


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A partition by the ledger. left: offsets up to the last stable one that are not done; None if unknown."""

    topic: str
    partition: int
    low: int
    left: int | None
    strip: Strip | None
    cut: int
    tries: int


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """A partition by the broker. archived_pieces: ranges that were delivered too often. For a connector's group,
    waiting: offsets that are no longer delivered, and that the ledger has not done yet; acquired: records that its
    tasks have now.
    """

    topic: str
    partition: int
    start: int
    speo: int
    end: int
    lag: int
    problem: str
    strip: Strip | None
    cut: int
    whole: bool
    archived_pieces: Sequence[Piece]
    waiting: int
    acquired: int
    slug: str

    @property
    def archived_words(self) -> str:
        return name_offsets(self.archived_pieces)


def ledger_lines(ledger: Mapping[InputPartition, State], partitions: Sequence[Mapping[str, Any]]) -> list[LedgerLine]:
    """partitions: as last reported by the broker. The ledger is shown even without them."""
    edges = {(each["topic_id"], each["partition"]): each for each in partitions}
    lines = []
    for place, state in sorted(ledger.items(), key=lambda one: (one[1].topic, one[0].partition)):
        edge = edges.get((place.topic_id, place.partition))
        left = None
        if edge is not None and edge["stable"] >= 0:
            missing = state.done.missing(state.low, edge["stable"] - 1)
            left = sum(last - first + 1 for first, last in missing)
        pieces, cut = of_ledger(state, _MOST_RANGES)
        lines.append(LedgerLine(state.topic, place.partition, state.low, left, draw(pieces), cut, len(state.tries)))
    return lines


def broker_lines(
    answer: Mapping[str, Any], ledger: Mapping[InputPartition, State], holders: HeldByTasks, *, ours: bool
) -> list[BrokerLine]:
    """answer: of one group. It contains record states for the partitions of one page only."""
    states = {(each["topic"], each["partition"]): each for each in answer.get("states", [])}
    lines: list[BrokerLine] = []
    skip = answer.get("skip", 0)
    for each in answer["partitions"][skip : skip + PAGE]:
        state = states.get((each["topic"], each["partition"]))
        archived_pieces = read_pieces(state["archived"]) if state else []
        ledger_state = ledger.get(InputPartition(each["topic_id"], each["partition"]))
        waiting = 0
        if ours:
            ranges = [[piece.first, piece.last] for piece in archived_pieces]
            waiting = find_waiting({**each, "archived": ranges}, ledger_state).size
        held_ranges = holders.of(each["topic"], each["partition"])
        lines.append(
            BrokerLine(
                each["topic"],
                each["partition"],
                each["start"],
                state["end"] if state else -1,
                each["end"],
                each["lag"],
                each["problem"],
                draw(lay_over(read_pieces(state["strip"], state["archived"]) if state else [], held_ranges)),
                state["cut"] if state else 0,
                state["whole"] if state else False,
                archived_pieces,
                waiting,
                held_ranges.size,
                f"ranges-{len(lines)}",
            )
        )
    return lines


def sum_lag(partitions: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the broker's total; None if it reports no partition."""
    lags = [each["lag"] for each in partitions if each["lag"] >= 0]
    return sum(lags) if lags else None


def sum_left(lines: Sequence[LedgerLine]) -> int | None:
    """Return the ledger's total; None if the partitions' ends are unknown."""
    counts = [line.left for line in lines if line.left is not None]
    return sum(counts) if counts else None


def one(readers: Readers, who: Principal, group: str, last: LastAnswer, number: int) -> dict[str, Any]:
    """Return the context of one group's page. The ledger comes from the database, even while Kafka is away."""
    connectors = who.filter_names(readers.of(group))
    ledger = acts.ledger_of(connectors)
    answer = last.answer or {}
    partitions = answer.get("partitions", [])
    lines = ledger_lines(ledger, partitions) if connectors else []
    held_records = find_held(connectors)
    page = Paginator(range(max(len(partitions), len(lines))), PAGE).get_page(number)
    skip = (page.number - 1) * PAGE
    return {
        "page": page,
        "held": held_records,
        "lag": sum_lag(partitions),
        "left": sum_left(lines),
        "count": len(partitions),
        "group": group,
        "path": path_of(group),
        "seen": last,
        "connectors": connectors,
        "ours": bool(readers.of(group)),
        "look": look_of(answer.get("state", "")),
        "answer": answer,
        "ledger": lines[skip : skip + PAGE],
        "partitions": broker_lines(answer, ledger, held_records, ours=bool(connectors)) if answer else [],
        "may": readers.verbs_on(who, group),
        "topics": sorted({each["topic"] for each in partitions}),
    }
