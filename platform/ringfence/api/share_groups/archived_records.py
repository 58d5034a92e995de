"""Records that a connector's share group no longer delivers, and that are not done in its ledger: processed now, on
request.

The sweep reads them in any case, after `share.sweep.after.ms`. A request saves time, and decides nothing: the tasks
check the ledger first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.api.share_groups.acts import ledger_of
from ringfence.api.share_groups.readers import Readers
from ringfence.audit.trail import note
from ringfence.dispatch import Refusal
from ringfence.engine.leader.commands import SweepNow
from ringfence.engine.questions import FindArchived
from ringfence.fencing.offsets.ledger_keys import InputPartition
from ringfence.fencing.share.ledger import State
from ringfence.fencing.share.offset_ranges import Ranges
from ringfence.fencing.topics.sweep_requests import MOST
from ringfence.projection.models import Connector


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


def find(readers: Readers, group: str) -> ArchivedRecords:
    """Find the waiting records, without changing anything. Raises `Refusal`."""
    connectors = readers.of(group)
    answer = dispatch.ask(FindArchived(group))
    ledger = ledger_of(connectors)
    partitions = []
    for each in answer["places"]:
        place = InputPartition(each["topic_id"], each["partition"])
        archived = sum(last - first + 1 for first, last in each["archived"])
        partitions.append(ArchivedPartition(place, each["topic"], archived, find_waiting(each, ledger.get(place))))
    return ArchivedRecords(connectors, partitions, _refusal(group, connectors), int(answer["left_out"]))


def _refusal(group: str, connectors: Sequence[str]) -> str:
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
    backlog = find(readers, group)
    if backlog.refusal:
        raise Refusal(409, backlog.refusal)
    selection = backlog.only(topic)
    places = [[*one.place, first, last] for one in selection.partitions for first, last in one.offsets][:MOST]
    if places:
        dispatch.command(SweepNow(backlog.connectors[0], reason, places), user=principal_of(request).name)
    note(request, f"{reason}. Share group {group}: {selection.waiting} offsets to be processed now")
    return selection
