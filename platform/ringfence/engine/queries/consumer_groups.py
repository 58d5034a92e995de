"""Describes the consumer groups of the workers' cluster, with their lag up to the last stable offset and to the end.

A read_committed consumer reads up to the last stable offset (LSO). However fast it is, the records from there to the
end wait for the open transaction that begins at the LSO.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.questions import DescribeConsumerGroup, ListConsumerGroups
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import ConsumerMember, ListedGroup, Where, consumer_group_admin
from ringfence.fencing.kafka.open_transactions import Holder, find_holders
from ringfence.fencing.kafka.topic_offsets import Ends, ends_of
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

MOST_GROUPS: Final = 500
MOST_PARTITIONS: Final = 2000


def _connection(worker: WorkerConfig) -> Connection:
    return worker.connection("ringfence-consumer-groups")


def _refuse(error: FencingError) -> Refusal:
    status, again = (500, False) if isinstance(error, Fatal) else (503, True)
    return Refusal(status, f"The consumer groups cannot be read: {error}", retry=again)


def lag_of(offset: int | None, ends: Ends | None) -> tuple[int | None, int | None]:
    """Return the lag to the last stable offset, and to the end, in offsets with markers; None if unknown."""
    if offset is None or ends is None:
        return None, None
    return max(0, ends.stable - offset), max(0, ends.end - offset)


def list_all(request: ListConsumerGroups, worker: WorkerConfig, rules: TopicRules, limit: Deadline) -> dict[str, Any]:
    """Return `groups` by name, each with `topics`; `left_out`: the number of matches after the first `MOST_GROUPS`."""
    connection, search = _connection(worker), request.search.casefold()
    try:
        with consumer_group_admin(connection) as admin:
            matches = [each for each in admin.groups() if search in each.name.casefold()]
            page = matches[:MOST_GROUPS]
            members = admin.members(page)
            offsets = admin.committed_offsets([each.name for each in page])
        places = {each.name: _places(members[each.name], offsets.get(each.name, {})) for each in page}
        if request.topic:
            places = {name: {one for one in some if one[0] == request.topic} for name, some in places.items()}
            page = [each for each in page if places[each.name]]
        ends = ends_of(connection, {one for some in places.values() for one in some}, limit)
    except FencingError as error:
        raise _refuse(error) from error
    groups = [
        {
            **_head(each),
            "members": len(members[each.name]),
            "topics": _by_topic(places[each.name], offsets.get(each.name, {}), ends),
        }
        for each in page
    ]
    names = {topic for some in places.values() for topic, _ in some}
    return {"groups": groups, "left_out": len(matches[MOST_GROUPS:]), "internal": _internal(names, rules)}


def describe(
    request: DescribeConsumerGroup, worker: WorkerConfig, rules: TopicRules, limit: Deadline
) -> dict[str, Any]:
    """Return one group. `partitions`: the first `MOST_PARTITIONS`, with the `holder` of a transaction that blocks one.

    `worker_group`: the cluster's `group.id`, the prefix of its tasks' transactional ids. Raises `Refusal`.
    """
    connection = _connection(worker)
    try:
        with consumer_group_admin(connection) as admin:
            group = next((each for each in admin.groups() if each.name == request.group), None)
            if group is None:
                raise Refusal(404, f"There is no consumer group {request.group}")
            members = admin.members([group])[group.name]
            offsets = admin.committed_offsets([group.name]).get(group.name, {})
            places = sorted(_places(members, offsets))
            ends = ends_of(connection, places[:MOST_PARTITIONS], limit)
            problem, holders = "", dict[Where, Holder]()
            try:
                holders = find_holders(admin, ends, limit)
            except FencingError as error:
                problem = f"The open transactions cannot be determined: {error}"
    except FencingError as error:
        raise _refuse(error) from error
    by_place = {place: each.member_id for each in members for place in each.partitions}
    return {
        **_head(group),
        "members": [_member(each) for each in members],
        "partitions": [
            _partition(place, offsets.get(place), ends.get(place), by_place.get(place, ""), holders.get(place))
            for place in places[:MOST_PARTITIONS]
        ],
        "left_out": len(places[MOST_PARTITIONS:]),
        "internal": _internal({topic for topic, _ in places}, rules),
        "problem": problem,
        "worker_group": worker.group_id,
    }


def _head(group: ListedGroup) -> dict[str, Any]:
    return {"group": group.name, "state": group.state, "protocol": group.protocol}


def _places(members: Sequence[ConsumerMember], offsets: Mapping[Where, int]) -> set[Where]:
    """Return the group's partitions: those with committed offsets, and those that its members are assigned."""
    return {*offsets, *(place for each in members for place in each.partitions)}


def _by_topic(places: Iterable[Where], offsets: Mapping[Where, int], ends: Mapping[Where, Ends]) -> list[Any]:
    topics: dict[str, dict[str, Any]] = {}
    for place in sorted(places):
        one = topics.setdefault(place[0], {"topic": place[0], "partitions": 0, "lag": None, "lag_to_end": None})
        one["partitions"] += 1
        for key, value in zip(("lag", "lag_to_end"), lag_of(offsets.get(place), ends.get(place)), strict=True):
            one[key] = value if one[key] is None else one[key] + (value or 0)
    return list(topics.values())


def _partition(
    place: Where, offset: int | None, ends: Ends | None, member: str, holder: Holder | None
) -> dict[str, Any]:
    lag, to_end = lag_of(offset, ends)
    return {
        "topic": place[0],
        "partition": place[1],
        "committed": offset,
        "stable": ends.stable if ends else None,
        "end": ends.end if ends else None,
        "lag": lag,
        "lag_to_end": to_end,
        "member": member,
        "holder": None
        if holder is None
        else {
            "transactional_id": holder.transactional_id,
            "producer_id": holder.producer_id,
            "epoch": holder.epoch,
            "first_offset": holder.first_offset,
            "since_ms": holder.since_ms,
        },
    }


def _member(each: ConsumerMember) -> dict[str, Any]:
    partitions = [{"topic": topic, "partition": number} for topic, number in each.partitions]
    return {"member": each.member_id, "client": each.client_id, "host": each.host, "assigned": partitions}


def _internal(topics: Iterable[str], rules: TopicRules) -> dict[str, str]:
    access = rules.access("")
    return {topic: what for topic in topics if (what := access.internal(topic))}
