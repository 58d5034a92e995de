"""Who can run tasks: the group's live members, joined with their `worker-<id>` records."""

from fencing.assignment import Member
from fencing.clock import Deadline
from fencing.ids import parse_member_client_id
from fencing.kafka.groups import group_members
from fencing.kafka.settings import Connection
from fencing.status import StatusState


def live_members(connection: Connection, group_id: str, status: StatusState, deadline: Deadline) -> list[Member]:
    """Members whose own record names the incarnation that sits in the group; others have not introduced themselves."""
    members = []
    for member in group_members(connection, group_id, deadline):
        parsed = parse_member_client_id(member.client_id)
        record = status.workers.get(parsed[0]) if parsed else None
        if parsed is not None and record is not None and record.incarnation == parsed[1]:
            members.append(Member(parsed[0], parsed[1], record.slots))
    return members
