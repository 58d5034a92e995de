"""Finds the workers that can run tasks: the group's live members with their `worker-<id>` records."""

import logging
import time
from collections.abc import Iterable

from ringfence.engine.dead_peers import describe_process
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import Incarnation, WorkerId, parse_member_client_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.group_members import GroupMember, group_members
from ringfence.fencing.topics.config_records.format import FORMAT
from ringfence.fencing.topics.status import StatusState, WorkerRecord
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_ASKED_SECONDS = 10.0


def live_workers(connection: Connection, group_id: str, status: StatusState, deadline: Deadline) -> list[WorkerRecord]:
    """Return the status records of the live members. Raises as `group_members`."""
    return live_records(group_members(connection, group_id, deadline), status)


def live_records(members: Iterable[GroupMember], status: StatusState) -> list[WorkerRecord]:
    """Return the status records of these members.

    A worker that has just left the group to hand over the leadership is included, since its tasks continue.
    """
    now_ms = time.time() * 1000
    records = [record for record in status.workers.values() if record.away_until_ms > now_ms]
    for member in members:
        client_id = parse_member_client_id(member.client_id)
        record = status.workers.get(client_id[0]) if client_id else None
        if (
            record is not None
            and client_id is not None
            and record.incarnation == client_id[1]
            and record not in records
        ):
            records.append(record)
    return records


def worker_modes(
    connection: Connection, group_id: str, status: StatusState, deadline: Deadline
) -> dict[str, str] | None:
    """Return `exactly.once.source.support` of each live worker by its id; None if the brokers do not answer."""
    try:
        live = live_workers(connection, group_id, status, deadline)
    except FencingError as error:
        log.info("Which workers live could not be found out: %s", error)
        return None
    return {record.worker: record.mode for record in live}


def is_member(connection: Connection, group_id: str, worker: str) -> bool:
    """Return whether a worker with this id is in the group. Raises as `group_members`."""
    members = group_members(connection, group_id, Deadline.after(_ASKED_SECONDS))
    return worker in [client_id[0] for member in members if (client_id := parse_member_client_id(member.client_id))]


def identity(
    worker: str, incarnation: str, config: WorkerConfig, slots: int, version: str, now_ms: int
) -> WorkerRecord:
    """Return this worker's status record."""
    return WorkerRecord(
        WorkerId(worker),
        Incarnation(incarnation),
        config.mode,
        slots,
        version,
        now_ms,
        process=describe_process(),
        format=FORMAT,
    )
