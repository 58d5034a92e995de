"""Draws offset states as one coloured line, and describes it in words. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.share.ledger import State
from ringfence.fencing.share.offset_ranges import Ranges

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
