"""The records of a connector's ledger, in one partition of its offsets topic (docs/share-groups.md, "The ledger").

A *claim* is the first record of a transaction: it names the offsets that the transaction processes. Its key is not a
source partition, so readers of source offsets skip it. It has no meaning once its transaction has ended.

A *state* is a source offset, produced last: what one slot (a task's number) has committed of one input partition, from
`low` on. Every offset below `low` is done. Only the last state of each slot counts, so the ledger may be compacted.
A state without a slot describes the whole partition: the REST API shows it, and writes it when a user alters offsets.

All of them are in partition 0 of the topic (`ringfence.fencing.offsets.ledger_keys`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.ledger_keys import SLOT, InputPartition, is_number
from ringfence.fencing.offsets.source_offsets import Offset
from ringfence.fencing.share.offset_ranges import Ranges

TOPIC: Final = "topic"
LOW: Final = "low"
DONE: Final = "done"
CLUSTER: Final = "cluster"
TRIES: Final = "tries"

_CLAIM: Final = "claim"
START: Final = -1
"""The offset that a slot claims in order to set where a partition begins."""


Claims = Mapping[InputPartition, Ranges]


@dataclass(frozen=True, slots=True)
class Claim:
    """The offsets that one transaction processes. slot: the number of the task whose transactional id it has."""

    slot: int
    offsets: Claims


@dataclass(slots=True)
class State:
    """tries: how often the sweep tried an offset before it was done; only offsets that it tried. cluster: the id of the
    topic's cluster, "" if unknown.
    """

    topic: str
    low: int
    done: Ranges = field(default_factory=Ranges)
    tries: dict[int, int] = field(default_factory=dict)
    cluster: str = ""


def claim_key(connector: ConnectorName, slot: int) -> bytes:
    """Return the key of a slot's claims: one for each slot, so compaction keeps at most the newest claim."""
    return _dump([connector, _CLAIM, slot])


def encode_claim(claim: Claim) -> bytes:
    offsets = [[tp.topic_id, tp.partition, ranges.pairs()] for tp, ranges in claim.offsets.items()]
    return _dump({SLOT: claim.slot, _CLAIM: offsets})


def decode_claim(connector: ConnectorName, key: object, value: bytes | None) -> Claim | None:
    """Return the claim; None if it is not this connector's. key: parsed. Raises ValueError if it is unreadable."""
    if not isinstance(key, list) or len(key) != 3 or key[0] != connector or key[1] != _CLAIM or value is None:
        return None
    try:
        fields = json.loads(value)
        offsets = {InputPartition(str(topic), int(number)): Ranges(pairs) for topic, number, pairs in fields[_CLAIM]}
        return Claim(int(fields[SLOT]), offsets)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"A claim of connector {connector} cannot be read: {value[:200]!r}") from error


def encode_state(state: State) -> Offset:
    """Return the source offset of a state."""
    offset: dict[str, object] = {TOPIC: state.topic, LOW: state.low, DONE: state.done.pairs()}
    if state.tries:
        offset[TRIES] = sorted(state.tries.items())
    return {**offset, CLUSTER: state.cluster} if state.cluster else offset


def decode_state(offset: Offset) -> State:
    """Parse the state. Raises ValueError, which says what is wrong."""
    low = offset.get(LOW)
    if not is_number(low):
        raise ValueError(f"{LOW!r} must be a non-negative integer: everything before it is done")
    done, tries = offset.get(DONE, []), offset.get(TRIES, [])
    if not isinstance(done, list) or not all(_is_pair(pair) and pair[0] <= pair[1] for pair in done):
        raise ValueError(f"{DONE!r} must be a list of [first, last] offsets")
    if not isinstance(tries, list) or not all(map(_is_pair, tries)):
        raise ValueError(f"{TRIES!r} must be a list of [offset, times]")
    return State(str(offset.get(TOPIC, "")), int(str(low)), Ranges(done), dict(tries), str(offset.get(CLUSTER, "")))


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
