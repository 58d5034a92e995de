"""The pages about share groups. One URL serves a page and, for htmx, the part of it.

A connector's ledger comes first, because it decides, and the broker's report beside it. The states of its offsets are
drawn as one coloured line, which is also described in words.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence import dispatch
from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.api.share_groups import (
    LastAnswer,
    Readers,
    find_readers,
    find_waiting,
    ledger_of,
    look_at_list,
    look_at_one,
    readers_now,
)
from ringfence.connectors.plural_forms import write_count
from ringfence.dispatch import Refusal
from ringfence.engine.questions import ShareTimeline
from ringfence.fencing.offsets.ledger_keys import InputPartition
from ringfence.fencing.share.ledger import State
from ringfence.fencing.share.offset_ranges import Ranges
from ringfence.projection.models import Task
from ringfence.web.state_badges import Badge, Severity, group_look
from ringfence.web.views import is_fragment, with_token

WIDTH: Final = 1000
_MOST_PIECES: Final = 10
_LEAST: Final = 3.0
"""The narrowest cell, so that a single record among thousands is visible."""

WORDS: Final = {
    "available": "available",
    "acquired": "acquired",
    "acknowledged": "acknowledged",
    "archived": "archived",
    "passed": "passed over",
    "done": "done",
    "open": "not done",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of offsets in one state. deliveries: how often it was delivered, 0 if unknown."""

    first: int
    last: int
    state: str
    deliveries: int = 0

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def offsets(self) -> str:
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,} to {self.last:,}"

    @property
    def word(self) -> str:
        return WORDS[self.state]

    @property
    def title(self) -> str:
        times = "" if not self.deliveries else f", delivered {write_count(self.deliveries, 'time')}"
        return f"{self.offsets}: {self.word}{times}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece with its position, in units of the strip's width."""

    piece: Piece
    at: str
    width: str


@dataclass(frozen=True, slots=True)
class Strip:
    """summary: the same in words, for screen readers."""

    cells: Sequence[Cell]
    summary: str

    @property
    def pieces(self) -> list[Piece]:
        return [cell.piece for cell in self.cells]


def read_pieces(ranges: Iterable[Sequence[Any]], archived: Iterable[Sequence[Any]] | None = None) -> list[Piece]:
    """Read an answer's [first, last, state, delivery count].

    archived: those that were delivered as often as allowed. The broker stores markers of transactions, aborted records
    and rejected ones in the same state: with `archived`, they are passed over instead.
    """
    pieces = [Piece(int(first), int(last), str(state), int(count)) for first, last, state, count in ranges]
    if archived is None:
        return pieces
    limit = min((int(count) for *_, count in archived), default=None)
    return [
        replace(piece, state="passed")
        if piece.state == "archived" and (limit is None or piece.deliveries < limit)
        else piece
        for piece in pieces
    ]


def name_offsets(pieces: Sequence[Piece]) -> str:
    """Name the first of them in words."""
    more = ", and more" if len(pieces) > _MOST_PIECES else ""
    return ", ".join(piece.offsets for piece in pieces[:_MOST_PIECES]) + more


def draw(pieces: Sequence[Piece]) -> Strip | None:
    """Draw the strip; None if there is nothing to show."""
    if not pieces:
        return None
    total = sum(piece.size for piece in pieces)
    widths = [max(_LEAST, WIDTH * piece.size / total) for piece in pieces]
    scale = WIDTH / sum(widths)
    cells, at = [], 0.0
    for piece, width in zip(pieces, widths, strict=True):
        cells.append(Cell(piece, f"{at:.1f}", f"{width * scale:.1f}"))
        at += width * scale
    counts: dict[str, int] = {}
    for piece in pieces:
        counts[piece.word] = counts.get(piece.word, 0) + piece.size
    text = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    return Strip(cells, f"Offsets {pieces[0].first:,} to {pieces[-1].last:,}: {text}")


def lay_over(pieces: Sequence[Piece], ranges: Ranges) -> list[Piece]:
    """Add the ranges that members hold. The broker persists those as available or, beyond its end, not at all."""
    overlay: list[Piece] = []
    for piece in pieces:
        if piece.state != "available":
            overlay.append(piece)
            continue
        at = piece.first
        for first, last in ranges:
            if last < at or first > piece.last:
                continue
            if first > at:
                overlay.append(replace(piece, first=at, last=first - 1))
            overlay.append(Piece(max(first, at), min(last, piece.last), "acquired", piece.deliveries))
            at = last + 1
        if at <= piece.last:
            overlay.append(replace(piece, first=at))
    end = pieces[-1].last if pieces else -1
    for first, last in ranges:
        if last <= end:
            continue
        if pieces and first > end + 1:
            overlay.append(Piece(end + 1, first - 1, "available"))
        overlay.append(Piece(max(first, end + 1), last, "acquired"))
        end = last
    return overlay


def of_ledger(state: State, most: int) -> tuple[list[Piece], int]:
    """Return the ledger's pieces from its low mark on, and the number of ranges left out."""
    pieces: list[Piece] = []
    at = state.low
    for first, last in state.done:
        if first > at:
            pieces.append(Piece(at, first - 1, "open"))
        pieces.append(Piece(first, last, "done"))
        at = last + 1
    return pieces[:most], max(0, len(pieces) - most)


@dataclass(frozen=True, slots=True)
class HeldByTasks:
    """Ranges by topic and partition. time_ms: of the oldest report that they come from, 0 for none."""

    ranges: Mapping[tuple[str, int], Ranges] = field(default_factory=dict)
    time_ms: int = 0

    def of(self, topic: str, partition: int) -> Ranges:
        return self.ranges.get((topic, partition)) or Ranges()

    @property
    def count(self) -> int:
        """The number of records in all partitions."""
        return sum(one.size for one in self.ranges.values())


def find_held(connectors: Sequence[str]) -> HeldByTasks:
    """Return what the running tasks hold."""
    ranges: dict[tuple[str, int], Ranges] = {}
    times = []
    for task in Task.objects.filter(connector__in=connectors, known=True, state="RUNNING"):
        measures = json.loads(task.measures)
        for topic, partition, first, last in measures.get("held", ()):
            ranges.setdefault((topic, partition), Ranges()).add(first, last)
        if measures.get("held"):
            times.append(int(measures["held_ms"]))
    return HeldByTasks(ranges, min(times, default=0))


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
    ledger = ledger_of(connectors)
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


_SECONDS = 8.0
"""The longest wait for Kafka. After it, the page shows the last known data."""
_LARGEST = 2**31 - 1


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def share_groups(request: HttpRequest) -> HttpResponse:
    """All visible share groups of the cluster, connectors' first."""
    last, who = look_at_list(_SECONDS), principal_of(request)
    rows = []
    if last.answer is not None:
        rows = list_rows(find_readers(last.answer["worker_group"]), who, last.answer)
    template = "ringfence/share/list.html" if is_fragment(request) else "ringfence/share/list_page.html"
    return render(request, template, {"rows": rows, "seen": last, "section": "share-groups"})


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def share_group(request: HttpRequest, name: str) -> HttpResponse:
    """One group. `?page=`: of its partitions."""
    readers = _readers(request, name)
    number = _page_of(request.GET.get("page", ""))
    last = look_at_one(name, _SECONDS, (number - 1) * PAGE)
    if last.status == 404 and not readers.of(name):
        raise Http404(last.problem)
    context = {**one(readers, principal_of(request), name, last, number), "section": "share-groups"}
    template = "ringfence/share/group.html" if is_fragment(request) else "ringfence/share/group_page.html"
    return render(request, template, context)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def timeline(request: HttpRequest, name: str) -> HttpResponse:
    """`?topic=&partition=&step=`: the records of `__share_group_state` about a partition, replayed up to a step."""
    _readers(request, name)
    topic, number = request.GET.get("topic", ""), request.GET.get("partition", "")
    if not topic or not (number.isascii() and number.isdigit() and int(number) <= _LARGEST):
        raise Http404("A timeline shows one partition: set ?topic=&partition=")
    context: dict[str, Any] = {"group": name, "path": path_of(name), "topic": topic, "partition": int(number)}
    try:
        answer = dispatch.ask(ShareTimeline(name, topic, int(number)), _SECONDS)
        context |= _step(answer, request.GET.get("step", ""))
    except Refusal as error:
        if error.status == 404:
            raise Http404(error.message) from error
        context |= {"problem": error.message}
    template = "ringfence/share/timeline.html" if is_fragment(request) else "ringfence/share/timeline_page.html"
    return render(request, template, {**context, "section": "share-groups"})


def _page_of(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1


def _readers(request: HttpRequest, name: str) -> Readers:
    """Raises `Forbidden` if the group may not be seen, or Http404 if it is unknown."""
    try:
        readers = readers_now()
    except Refusal as error:
        raise Http404(f"Share group {name} is not known here yet. {error.message}") from error
    readers.authorise(request, Verb.VIEW, name)
    return readers


def _step(answer: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the step to show, by default the newest, with its neighbours in words."""
    steps = answer["steps"]
    if not steps:
        return {"found": answer, "steps": []}
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else len(steps)
    position = min(max(1, number), len(steps))
    step = steps[position - 1]
    strip = draw(read_pieces(step["strip"], step["archived"]))
    changed_pieces = read_pieces(step["changed"], step["archived"])
    archived_text = name_offsets(read_pieces(step["archived"]))
    return {
        "found": answer,
        "steps": steps,
        "chosen": position,
        "step": step,
        "strip": strip,
        "changed": changed_pieces,
        "archived": archived_text,
        "before": max(1, position - 1),
        "after": min(len(steps), position + 1),
    }
