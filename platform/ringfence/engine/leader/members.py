"""Who can run tasks: the group's live members, joined with their `worker-<id>` records."""

import logging
import time

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import Incarnation, WorkerId, parse_member_client_id
from ringfence.fencing.kafka.groups import group_members
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.leader.assignment import Member
from ringfence.fencing.modes import parse_mode
from ringfence.fencing.topics.status import StatusState, WorkerRecord
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_ASKED_SECONDS = 10.0


def live_members(connection: Connection, group_id: str, status: StatusState, deadline: Deadline) -> list[Member]:
    """Members whose own record names the incarnation that sits in the group; others have not introduced themselves."""
    found = live_workers(connection, group_id, status, deadline)
    return [Member(record.worker, record.incarnation, record.slots, parse_mode(record.mode)) for record in found]


def live_workers(connection: Connection, group_id: str, status: StatusState, deadline: Deadline) -> list[WorkerRecord]:
    """The same members, as they describe themselves. Raises as `group_members`.

    One that has just left its seat to hand the leadership over is still one of them: its tasks go on.
    """
    now_ms = time.time() * 1000
    records = [record for record in status.workers.values() if record.away_until_ms > now_ms]
    for member in group_members(connection, group_id, deadline):
        parsed = parse_member_client_id(member.client_id)
        record = status.workers.get(parsed[0]) if parsed else None
        if record is not None and parsed is not None and record.incarnation == parsed[1] and record not in records:
            records.append(record)
    return records


def worker_modes(
    connection: Connection, group_id: str, status: StatusState, deadline: Deadline
) -> dict[str, str] | None:
    """`exactly.once.source.support` of each live worker, by its name; None where no broker tells who lives."""
    try:
        live = live_workers(connection, group_id, status, deadline)
    except FencingError as error:
        log.info("Which workers live could not be found out: %s", error)
        return None
    return {record.worker: record.mode for record in live}


def is_member(connection: Connection, group_id: str, worker: str) -> bool:
    """Whether a worker of this id sits in the group. Raises as `group_members`."""
    found = group_members(connection, group_id, Deadline.after(_ASKED_SECONDS))
    return worker in [parsed[0] for member in found if (parsed := parse_member_client_id(member.client_id))]


def identity(
    worker: str, incarnation: str, config: WorkerConfig, slots: int, version: str, now_ms: int
) -> WorkerRecord:
    """This worker's record."""
    return WorkerRecord(WorkerId(worker), Incarnation(incarnation), config.mode, slots, version, now_ms)
