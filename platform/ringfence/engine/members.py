"""Who can run tasks: the group's live members, joined with their `worker-<id>` records."""

from fencing.assignment import Member
from fencing.clock import Deadline
from fencing.ids import parse_member_client_id
from fencing.kafka.groups import group_members
from fencing.kafka.settings import Connection
from fencing.status import StatusState, WorkerRecord


def live_members(connection: Connection, group_id: str, status: StatusState, deadline: Deadline) -> list[Member]:
    """Members whose own record names the incarnation that sits in the group; others have not introduced themselves."""
    found = live_workers(connection, group_id, status, deadline)
    return [Member(record.worker, record.incarnation, record.slots) for record in found]


def live_workers(connection: Connection, group_id: str, status: StatusState, deadline: Deadline) -> list[WorkerRecord]:
    """The same members, as they describe themselves. Raises as `group_members`."""
    records = []
    for member in group_members(connection, group_id, deadline):
        parsed = parse_member_client_id(member.client_id)
        record = status.workers.get(parsed[0]) if parsed else None
        if parsed is not None and record is not None and record.incarnation == parsed[1]:
            records.append(record)
    return records
