"""A restore: the lost topics are created again and filled from a copy, after every old task was fenced.

1: the worker's group is empty: no worker works, and no leader is cut off. 2: missing topics are created. 3: this
process joins the group as its only member and claims the config topic like a leader (invariant 3), which fences the
last one. 4: every transactional id of the group is fenced, wherever the copy says that tasks wrote; no count record
says how many there are, so the coordinators are asked. 5: one transaction writes configurations, target states, count
records, source offsets, and the ids of the topics, which all workers use from then on.

Step 4 fences an old task that still lives; one that starts late notices that its topics are others, and ends (steps 4
and 6 of its start). Once a worker leads again, a fencing round of each connector repeats step 4.
"""

import logging
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from ringfence.engine.config_topic import open_config_log
from ringfence.engine.platform_topics import present, recall, specs
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, FencingError, Invalid, Retriable
from ringfence.fencing.ids import ConnectorName, Generation, parse_task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import group_members
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.membership import GroupMembership, GroupMetadata
from ringfence.fencing.kafka.topic_admin import create_topics
from ringfence.fencing.leader.fence_targets import list_admin_access, place_of, target_of
from ringfence.fencing.leader.term import Term, TopicRecord
from ringfence.fencing.offsets.source_offsets import decode_key, encode_key, encode_value
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TargetStateRecord,
    TaskCountRecord,
)
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.fencing.topics.topic_ids import CONFIG, OFFSETS, PRECIOUS, TopicIds, dumps, losses, offsets_key
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.recovery.backup import from_kafka, refuse_unreadable
from ringfence.recovery.backup_format import ConnectorCopy, Copy
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

Say = Callable[[str], None]

_SEAT_SECONDS = 60.0
_MOST_RECORDS = 1_000_000
NO_GENERATION_YET = Generation(0)
"""The generation in a restored count record: a round is pending, since the record at offset 0 is never a commit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is lost, and therefore what to write."""

    connectors: Mapping[str, ConnectorCopy] = field(default_factory=dict)
    offsets: Sequence[TopicRecord] = field(default_factory=tuple)
    lost: Sequence[str] = field(default_factory=tuple)

    @property
    def offsets_lost(self) -> bool:
        return OFFSETS in self.lost


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore. stopped: connectors whose offsets a user must check first."""

    connectors: int
    offsets: int
    fenced: Sequence[str]
    stopped: bool


class Restore:
    """One restore, acceptance, or last copy. Every step can be repeated: after an error, run it again."""

    def __init__(self, config: WorkerConfig, remembered: TopicIds | None, say: Say) -> None:
        """remembered: the topic ids in the database."""
        self._config = config
        self._connection = config.connection("ringfence-restore")
        self._remembered = remembered
        self._say = say

    def run(self, copy: Copy, *, resume: bool) -> RestoreResult:
        """Restore what was lost. resume: whether connectors run at once if their offsets came from the copy.

        Raises `Invalid` if there is nothing to restore, or if the copy belongs to another group.
        """
        if copy.group_id != self._config.group_id:
            raise Invalid(
                f"This is a copy of group.id {copy.group_id}, but the worker's settings have {self._config.group_id}: "
                "its transactional ids begin with another prefix. Set group.id to that value, or name another copy"
            )
        deadline = Deadline.after(600)
        self.await_empty_group()  # 1
        self._fence([], deadline)  # so that no frozen task's transaction hides records from the reads below
        plan = self.plan(copy, deadline)
        if not plan.lost:
            raise Invalid(
                "Nothing is lost: the config topic has connectors, the offsets topic has offsets, and both have the "
                "stored ids. If another topic with their name is correct, run `ringfence topics accept`"
            )
        self._create(deadline)  # 2
        stop = plan.offsets_lost and not resume
        with self._term(deadline) as term:  # 3
            fenced = self._fence([one.target for one in copy.connectors.values()], deadline)  # 4
            counts = count_ids(self._config.group_id, copy.connectors, fenced)
            ids = self._ids_of_now(deadline)

            def records(state: ClusterState) -> list[ConfigRecord | TopicRecord]:  # 5
                if plan.connectors and any(state.existing()):
                    raise Conflict("Connectors were created in the meantime: nothing was written. Run it again")
                there = [] if plan.connectors else list(state.existing())
                out: list[ConfigRecord | TopicRecord] = [ids, self._copy_of(ids)]
                for name, one in plan.connectors.items():
                    out += connector_records(ConnectorName(name), one, max(counts.get(name, 0), one.tasks), stop=stop)
                for existing in there:  # the config topic exists, and offsets are restored: a new generation for all
                    out.append(ConnectorRecord(existing.name, existing.config))
                    if stop:
                        out += [
                            TargetStateRecord(existing.name, TargetState.STOPPED),
                            CommitRecord(existing.name, 0),
                        ]
                return [*out, *plan.offsets]

            term.write(records, deadline)
        self._tell_status(ids)
        return RestoreResult(len(plan.connectors), len(plan.offsets), fenced, stop)

    def accept(self) -> list[str]:
        """Accept the current topics. Every old task is fenced first; returns the fenced ids."""
        deadline = Deadline.after(600)
        self.await_empty_group()
        self._fence([], deadline)
        self._create(deadline)
        with self._term(deadline) as term:
            state = term.state
            refuse_unreadable(state)
            fenced = self._fence([target_of(one.config or {}) for one in state.existing()], deadline)
            counts = count_ids(self._config.group_id, state.connectors, fenced)
            ids = self._ids_of_now(deadline)

            def records(state: ClusterState) -> list[ConfigRecord | TopicRecord]:
                out: list[ConfigRecord | TopicRecord] = [ids, self._copy_of(ids)]
                for one in state.existing():  # a new generation of each: its round fences the known ids of the old one
                    count = one.count.tasks if one.count else 0
                    tasks = max(counts.get(one.name, 0), count, one.commit.tasks if one.commit else 0)
                    out += [*count_records(one.name, tasks, target_of(one.config or {}))]
                    out.append(ConnectorRecord(one.name, one.config))
                return out

            term.write(records, deadline)
        self._tell_status(ids)
        return fenced

    @contextmanager
    def last_copy(self) -> Iterator[Copy]:
        """Yield a copy with every offset that the old tasks can ever commit: each is fenced before. After the block,
        all connectors are STOPPED here, so that no worker that starts by mistake writes here beside another cluster.
        """
        deadline = Deadline.after(600)
        self.await_empty_group()
        self._fence([], deadline)
        with self._term(deadline) as term:
            refuse_unreadable(term.state)
            self._fence([target_of(one.config or {}) for one in term.state.existing()], deadline)
            yield from_kafka(self._connection, self._config, deadline)

            def records(state: ClusterState) -> list[ConfigRecord | TopicRecord]:
                out: list[ConfigRecord | TopicRecord] = []
                for one in state.existing():
                    if one.target is not TargetState.STOPPED:
                        out += [TargetStateRecord(one.name, TargetState.STOPPED), CommitRecord(one.name, 0)]
                return out

            if records(term.state):
                term.write(records, deadline)

    def await_empty_group(self) -> None:
        """Wait until the group has no member, for as long as the broker lists a dead worker. Raises `Invalid`."""
        deadline = Deadline.after(2 * self._config.number("session.timeout.ms") / 1000)
        while True:
            try:
                members = group_members(self._connection, self._config.group_id, Deadline.after(10))
            except Retriable:  # its coordinator is still loading, on a broker that has just started
                if deadline.expired:
                    raise
                time.sleep(deadline.slice(0.5))
                continue
            if not members:
                return
            if deadline.expired:
                names = ", ".join(sorted(member.client_id for member in members))
                raise Invalid(
                    f"Group {self._config.group_id} has members ({names}): a worker is running. Stop all workers, "
                    "then run this again. (Workers that wait for a lost topic may continue to run.)"
                )
            time.sleep(deadline.slice(0.5))

    def plan(self, copy: Copy, deadline: Deadline) -> Plan:
        """Return what is lost: a topic with another id than the stored one, or an empty one."""
        topics = present(self._connection, self._config, deadline)
        ids_before = recall(self._connection, self._config, deadline, self._remembered)
        lost = (
            {one.role for one in losses(ids_before, topics) if one.role in PRECIOUS}
            if ids_before is not None
            else set()
        )
        place = (self._connection, self._config)
        empty = {CONFIG: partial(has_no_connector, *place), OFFSETS: partial(has_no_offset, *place)}
        lost |= {role for role in PRECIOUS if topics[role] is None}
        for role in lost:
            if topics[role] is not None and not empty[role](deadline):
                raise Invalid(
                    f"Another {role} topic has replaced the lost one, and it is not empty: it is left unchanged. "
                    "Delete it, then run this again; or keep it with `ringfence topics accept`"
                )
        # An offsets topic that is certainly the old one may be empty because a user deleted the offsets.
        unknown = {CONFIG} if ids_before is not None else set(PRECIOUS)
        lost |= {role for role in unknown if role not in lost and empty[role](deadline)}
        connectors = copy.connectors if CONFIG in lost else {}
        topic = self._config.offsets_topic
        offsets = [
            TopicRecord(topic, encode_key(ConnectorName(one.connector), one.partition), encode_value(one.offset))
            for one in (copy.offsets if OFFSETS in lost else ())
        ]
        if len(offsets) > _MOST_RECORDS:
            raise Invalid(f"The copy has {len(offsets)} source offsets; at most {_MOST_RECORDS} fit in one transaction")
        return Plan(connectors, offsets, sorted(lost))

    def _create(self, deadline: Deadline) -> None:
        topics_now = present(self._connection, self._config, deadline)
        missing = [spec for role, spec in specs(self._config).items() if topics_now[role] is None]
        if missing:
            for name in create_topics(self._connection, missing, deadline):
                self._say(f"created topic {name}")

    @contextmanager
    def _term(self, deadline: Deadline) -> Iterator[Term]:
        """Claim the config topic as a leader does; yield the term."""
        config = self._config
        gained: list[GroupMetadata] = []
        membership = GroupMembership(
            self._connection,
            config.group_id,
            config.config_topic,
            "ringfence-restore@restore",
            gained.append,
            gained.clear,
            max_poll_interval_ms=900_000,
        )
        term: Term | None = None
        try:
            patience = Deadline.after(_SEAT_SECONDS)
            while not gained:
                if patience.expired:
                    raise Retriable(
                        f"Group {config.group_id} does not assign the config topic's partition: run it again"
                    )
                membership.poll(0.1)
            term = Term(
                self._connection,
                config.group_id,
                config.config_topic,
                gained[-1],
                lambda: membership.owns,
                vault=config.vault,
            )
            term.claim(deadline)
            yield term
        finally:
            if term is not None:
                term.close()
            membership.close()

    def _fence(self, targets: Sequence[Mapping[str, str]], deadline: Deadline) -> list[str]:
        """Fence every id of the group on its own cluster, and on others that answer: later rounds fence there, too."""
        prefix = f"{self._config.group_id}-"
        with Fencer(self._connection) as fencer:
            ids = fencer.ids(prefix)
            fencer.fence(ids, deadline)
        fenced = list(ids)
        places = {tuple(sorted(place_of(target).items())): target for target in targets if place_of(target)}
        for target in places.values():
            for access in list_admin_access(target, None, self._connection, self._config.settings):
                if access.connection.bootstrap == self._connection.bootstrap:
                    continue
                try:
                    with Fencer(access.connection) as fencer:
                        there = fencer.ids(prefix)
                        fencer.fence(there, Deadline.after(30))
                    fenced += there
                    break
                except FencingError as error:
                    self._say(
                        f"{access.connection.bootstrap} with {access.whose}: {error}. The connectors that write there "
                        "start only after a fencing round has reached it"
                    )
        self._say(f"fenced {len(fenced)} transactional ids that begin with {prefix}")
        return fenced

    def _ids_of_now(self, deadline: Deadline) -> TopicIds:
        topics_now = present(self._connection, self._config, deadline)
        before = recall(self._connection, self._config, deadline, self._remembered) or TopicIds()
        there = {role: one for role, one in topics_now.items() if one is not None}
        if missing := topics_now.keys() - there.keys():
            raise Retriable(f"Topics were deleted in the meantime ({', '.join(sorted(missing))}): run it again")
        return TopicIds(before.version + 1, there)

    def _copy_of(self, ids: TopicIds) -> TopicRecord:
        return TopicRecord(self._config.offsets_topic, offsets_key(self._config.group_id), dumps(ids))

    def _tell_status(self, ids: TopicIds) -> None:
        reporter = Reporter(self._connection, self._config.status_topic, self._config.events_topic)
        try:
            reporter.status(ids)
            reporter.flush(10)
        finally:
            reporter.close()


def count_records(name: ConnectorName, tasks: int, target: Mapping[str, str]) -> list[ConfigRecord]:
    """Return records after which the next round fences this number of ids."""
    return [TaskCountRecord(name, tasks, None), TaskCountRecord(name, tasks, NO_GENERATION_YET, target)]


def connector_records(name: ConnectorName, one: ConnectorCopy, tasks: int, *, stop: bool) -> list[ConfigRecord]:
    """Return its configuration without tasks, which the next leader makes. A round is pending before they start."""
    state = TargetState.STOPPED if stop else one.state
    # Also if the account may write to all topics now: a later limit on the account must reach the connector.
    grant = [TopicGrantRecord(name, one.topics, one.saved_by)] if one.topics or one.saved_by else []
    return [
        *count_records(name, tasks, one.target),
        *grant,
        TargetStateRecord(name, state),
        ConnectorRecord(name, one.config),
    ]


def count_ids(group_id: str, names: Container[str], fenced: Sequence[str]) -> dict[str, int]:
    """Return the number of ids for each connector: from the highest task number that a coordinator knows."""
    counts: dict[str, int] = {}
    for one in fenced:
        task = parse_task_transactional_id(group_id, one)
        if task is not None and task.connector in names:
            counts[task.connector] = max(counts.get(task.connector, 0), task.task + 1)
    return counts


def knows_connectors(state: ClusterState) -> bool:
    """Return whether a connector exists, even if it cannot be read."""
    return any(one.config is not None or one.unreadable is not None for one in state.connectors.values())


def has_no_connector(connection: Connection, config: WorkerConfig, deadline: Deadline) -> bool:
    """Return whether the config topic has no connector."""
    reader = open_config_log(config, connection, deadline)
    try:
        return not knows_connectors(reader.refresh(deadline))
    finally:
        reader.close()


def has_no_offset(connection: Connection, config: WorkerConfig, deadline: Deadline) -> bool:
    """Return whether the offsets topic has no source offset."""
    reader = TopicLog(connection, config.offsets_topic, deadline=deadline)
    try:
        return not any(
            decode_key(record.key) and record.value for record in (*reader.catch_up(deadline), *reader.ahead)
        )
    finally:
        reader.close()
