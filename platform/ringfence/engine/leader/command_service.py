"""A command's way through the worker: deadline, plugin, plan, the leader's write, the answer (design: "A command")."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any

from ringfence.engine.leader import commands
from ringfence.engine.leader.command_refused import CommandRefused
from ringfence.engine.leader.commands import Plan
from ringfence.engine.leader.internal_requests import check_signature, fence
from ringfence.engine.leader.jobs import Written
from ringfence.engine.leader.offset_alteration import Changes, OffsetAlteration
from ringfence.engine.leader.share_group_acts import ShareGroupAct
from ringfence.engine.leader.thread import Leader
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.errors import OffsetsRefused, PluginError
from ringfence.engine.queries import hanging_transactions
from ringfence.engine.queries.transactional_ids import fence_id
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, WorkerId
from ringfence.fencing.kafka.admin import end_offsets, topic_identity
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset, canonical
from ringfence.fencing.topics.active_topics import key_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.connector_logs import about
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import Removed
from ringfence.fencing.topics.topic_grants import TopicGrantRecord

_INITIAL = {"RUNNING": TargetState.RUNNING, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
_REMEMBERED = 1000
_LATE = "Request timed out before it was carried out: nothing was changed. Send it again"


class CommandService:
    """Carries out commands on the leader. Thread-safe: each Celery task calls `execute` on its own thread."""

    def __init__(
        self, leader: Leader, plugins: PluginHost, reporter: Reporter, connection: Connection, offsets_topic: str
    ) -> None:
        self._leader = leader
        self._plugins = plugins
        self._reporter = reporter
        self._connection = connection
        self._offsets_topic = offsets_topic
        self._offsets_of = leader.offsets
        self._lock = threading.Lock()
        self._taken: dict[str, None] = {}

    def execute(self, command: Mapping[str, Any], limit: Deadline) -> dict[str, object]:
        """`command`: kind, connector, body, user. `limit`: when its sender stops waiting. The answer for it.

        A command whose deadline has passed is not carried out, whenever it wakes up: it is asked here, and once more
        right before the write.
        """

        def is_expired() -> bool:
            return limit.expired

        try:
            if is_expired():
                raise CommandRefused(500, _LATE)
            self._once(str(command.get("request_id") or ""))
            with about(str(command.get("connector") or "")):
                return {"ok": True, **self._execute(command, limit, is_expired)}
        except CommandRefused as refusal:
            self._report(command, "refused", refusal.message)
            return refusal.answer()

    def _once(self, request_id: str) -> None:
        """A client library may send a message again after a time-out: the copy does nothing."""
        with self._lock:
            if request_id in self._taken:
                raise CommandRefused(409, "This request was received twice; the first one is carried out")
            if request_id:
                self._taken[request_id] = None
            while len(self._taken) > _REMEMBERED:
                self._taken.pop(next(iter(self._taken)))

    def _report(self, command: Mapping[str, Any], outcome: str, message: str, offset: int = -1) -> None:
        if command["kind"] != "ping":
            self._reporter.event(
                "command",
                str(command.get("connector") or ""),
                kind=command["kind"],
                outcome=outcome,
                message=message,
                offset=offset,
                user=str(command.get("user") or ""),
            )

    def _execute(self, command: Mapping[str, Any], limit: Deadline, expired: Any) -> dict[str, object]:
        kind, body = str(command["kind"]), command.get("body") or {}
        state = self._leader.state()
        if kind == "ping":
            return {"value": {"connectors": sum(1 for _ in state.existing())}}
        if kind == "set_log_level":
            written = self._write(commands.set_log_level(str(body["logger"]), str(body["level"])), limit, expired)
            self._report(command, "done", "", written.offset)
            return {"offset": written.offset}
        if kind == "hand_over":
            successor = self._leader.hand_over.ask(self._leader.members, limit)
            self._report(command, "done", f"{successor} leads. {body['reason']}")
            return {"value": {"leader": successor}}
        if kind == "drain_worker":
            return self._drain(command, body, limit, expired)
        if kind == "share_group":
            return self._share_group(state, command, body, limit, expired)
        name = ConnectorName(str(command["connector"]))
        if kind == "fence":
            check_signature(self._leader.worker_config.session_keys, state, body)
            fence(state, name, self._await_round, limit)
            self._report(command, "done", "")
            return {"value": None}
        if kind == "fence_id":
            fenced = fence_id(state, name, str(body["id"]), self._leader.worker_config)
            self._report(command, "done", f"{body['id']}: {body['reason']}")
            return {"value": {"fenced": fenced}}
        if kind == "end_hanging":
            ended = hanging_transactions.end(state, name, body, self._leader.worker_config)
            self._report(command, "done", f"{body['topic']}-{body['partition']}: {body['reason']}")
            return {"value": ended}
        if kind == "retry_round":
            self._leader.hurry(name)
            self._report(command, "done", str(body["reason"]))
            return {"value": None}
        connector = state.connector(name)
        plan, value = self._plan(kind, name, connector, body, limit)
        written = self._write(plan, limit, expired)
        self._after(kind, name, connector, written)
        self._report(command, "done", str(body.get("reason") or ""), written.offset)
        answer: dict[str, object] = {"value": value}
        if written.offset >= 0:
            answer["offset"] = written.offset
        if kind in ("alter_offsets", "reset_offsets"):
            answer["offsets_end"] = self._offsets_end(limit)
        if kind == "reset_topics":
            answer["status_end"] = self._forget_topics(name, limit)
        if kind == "fence_now":
            answer["value"] = {"generation": written.state.connector(name).generation}
        if kind in ("delete", "stop", "fence_now") and body.get("wait", True):
            self._await_round(name, limit)
        return answer

    def _share_group(
        self, state: ClusterState, command: Mapping[str, Any], body: Mapping[str, Any], limit: Deadline, expired: Any
    ) -> dict[str, object]:
        """See `ShareGroupAct`. A connector's ledger is written as `alter_offsets` writes it."""
        answer: dict[str, object] = {}

        def write_ledger(
            name: ConnectorName, connector: ConnectorState, decide: Callable[[list[SourceOffset]], Changes]
        ) -> None:
            by_hand = OffsetAlteration(self._offsets_of, name, connector, limit)
            changes = decide(by_hand.known)
            self._check_offsets(name, connector, changes, limit)
            written = self._write(by_hand.move(changes), limit, expired)
            if written.offset >= 0:
                answer["offset"] = written.offset
            answer["offsets_end"] = self._offsets_end(limit)

        done = ShareGroupAct(state, body, self._leader.worker_config, limit).run(write_ledger)
        self._report(command, "done", f"{body['act']['kind']} {body['group']}: {body['reason']}")
        return {**answer, "value": done}

    def _drain(
        self, command: Mapping[str, Any], body: Mapping[str, Any], limit: Deadline, expired: Any
    ) -> dict[str, object]:
        """`body`: worker, drained (false: it takes tasks again), reason."""
        worker = WorkerId(str(body["worker"]))
        found = [member.incarnation for member in self._leader.members if member.worker == worker]
        if not found and body["drained"]:
            raise CommandRefused(404, f"No live worker has the id {worker}: look at the list of workers")
        incarnation = found[0] if body["drained"] else None
        written = self._write(commands.drain(worker, incarnation, self._reporter.now_ms()), limit, expired)
        self._report(command, "done", f"{worker}. {body['reason']}", written.offset)
        return {"offset": written.offset} if written.offset >= 0 else {}

    def _write(self, plan: Plan, limit: Deadline, expired: Any) -> Written:
        try:
            return self._leader.submit(plan, limit, expired).result(timeout=limit.remaining + 5)
        except FutureTimeout:
            raise CommandRefused(
                500, "Request timed out while the leader was writing. Whether it was written is unknown: look again"
            ) from None

    def _plan(
        self, kind: str, name: ConnectorName, connector: ConnectorState, body: Mapping[str, Any], limit: Deadline
    ) -> tuple[Plan, object]:
        match kind:
            case "create":
                return self._create(name, connector, body, limit)
            case "configure":
                return self._configure(name, connector, body, limit)
            case "pause":
                return commands.pause(name), None
            case "resume":
                stopped = connector.config is not None and connector.target is TargetState.STOPPED
                tasks = self._tasks(name, connector.config or {}, connector.topic_grant) if stopped else None
                return commands.resume(name, tasks), None
            case "stop":
                return commands.stop(name), None
            case "delete":
                return commands.delete(name), None
            case "fence_now":
                return commands.fence_now(name), None
            case "restart":
                return self._restart(name, connector, body)
            case "restart_task":
                self._leader.mark_restarting(name, [int(body["task"])])
                return commands.restart_task(name, int(body["task"]), connector.generation), None
            case "reset_topics":
                if not self._leader.worker_config.flag("topic.tracking.enable"):
                    raise CommandRefused(403, "Topic tracking is disabled.")
                if not self._leader.worker_config.flag("topic.tracking.allow.reset"):
                    raise CommandRefused(403, "Topic tracking reset is disabled.")
                return commands.reset_topics(name, self._reporter.now_ms()), None
            case "set_connector_log_level":
                level = None if body.get("level") is None else str(body["level"])
                return commands.set_connector_log_level(name, level, int(body.get("until_ms") or 0)), None
            case "alter_offsets" | "reset_offsets":
                return self._offsets(kind, name, connector, body, limit)
            case _:
                raise CommandRefused(400, f"Unknown command {kind!r}")

    def _tasks(
        self, name: ConnectorName, config: Mapping[str, str], grant: TopicGrantRecord | None
    ) -> list[dict[str, str]] | None:
        """The connector's tasks; None where the plugin fails: the connector is then FAILED, with the trace."""
        try:
            return self._leader.instances.make(name, config, grant)
        except PluginError:
            return None  # the reconcile loop asks again, and puts the trace into the connector's status

    def _create(
        self, name: ConnectorName, connector: ConnectorState, body: Mapping[str, Any], limit: Deadline
    ) -> tuple[Plan, object]:
        if connector.config is not None:
            raise CommandRefused(409, f"Connector {name} already exists")
        config = dict(body["config"])
        initial = _INITIAL[str(body.get("initial_state") or "RUNNING").upper()]
        with suppress(PluginError):  # for its status, also where nothing of it starts
            self._plugins.version_of(config.get("connector.class", "").strip())
        grant = _grant(name, body)
        tasks = None if initial is TargetState.STOPPED else self._tasks(name, config, grant)
        return commands.create(name, config, initial, tasks, grant), {"created": True}

    def _configure(
        self, name: ConnectorName, connector: ConnectorState, body: Mapping[str, Any], limit: Deadline
    ) -> tuple[Plan, object]:
        config = dict(body["config"])
        expected = body.get("expected")
        if connector.config is None:
            if not body.get("create"):
                raise CommandRefused(404, f"Connector {name} not found")
            return self._create(name, connector, {**body, "config": config, "initial_state": None}, limit)
        grant = _grant(name, body)
        if connector.config == config and connector.unreadable is None:
            return commands.configure(name, config, None, expected, grant), {"created": False, "changed": False}
        stopped = connector.target is TargetState.STOPPED
        tasks = None if stopped else self._tasks(name, config, grant)
        return commands.configure(name, config, tasks, expected, grant), {"created": False, "changed": True}

    def _restart(self, name: ConnectorName, connector: ConnectorState, body: Mapping[str, Any]) -> tuple[Plan, object]:
        include, only_failed = bool(body.get("include_tasks")), bool(body.get("only_failed"))
        status = self._leader.statuses()
        if connector.config is not None:
            self._leader.mark_restarting(name, commands.tasks_to_restart(connector, include, only_failed, status))
            failed = self._leader.instances.trace_of(name, connector.config_offset) is not None
            if failed or not only_failed:
                self._leader.instances.restart(name)
        return commands.restart(name, include, only_failed, status), None

    def _offsets(
        self, kind: str, name: ConnectorName, connector: ConnectorState, body: Mapping[str, Any], limit: Deadline
    ) -> tuple[Plan, object]:
        if connector.config is None:
            raise CommandRefused(404, f"Connector {name} not found")
        by_hand = OffsetAlteration(self._offsets_of, name, connector, limit)
        changes = _changes(body["offsets"]) if kind == "alter_offsets" else by_hand.tombstones()
        checked = self._check_offsets(name, connector, changes, limit)
        return by_hand.move(changes), {"checked": checked}

    def _check_offsets(self, name: ConnectorName, connector: ConnectorState, changes: Changes, limit: Deadline) -> bool:
        """Whether the plugin has looked at them, and takes them."""
        if connector.target is not TargetState.STOPPED or connector.config is None:
            return False
        try:
            return self._plugins.alter_offsets(connector.config, changes, min(10.0, limit.remaining))
        except OffsetsRefused as error:
            raise CommandRefused(400, f"Connector {name} refuses these offsets: {error.message}") from error
        except PluginError as error:
            raise CommandRefused(400, f"Connector {name} could not check these offsets: {error.message}") from error

    def _offsets_end(self, limit: Deadline) -> dict[int, int]:
        """How far the offsets topic reaches now."""
        _, partitions = topic_identity(self._connection, self._offsets_topic, limit)
        return end_offsets(self._connection, self._offsets_topic, partitions, limit)

    def _forget_topics(self, name: ConnectorName, limit: Deadline) -> dict[int, int]:
        """Tombstones for the connector's active topics; the ends of the status topic with them."""
        for topic in sorted(self._leader.statuses().topics.get(name, ())):
            self._reporter.status(Removed(key_of(name, topic)))
        self._reporter.flush(limit.slice(10))
        topic = self._leader.worker_config.status_topic
        _, partitions = topic_identity(self._connection, topic, limit)
        return end_offsets(self._connection, topic, partitions, limit)

    def _after(self, kind: str, name: ConnectorName, before: ConnectorState, written: Written) -> None:
        now = written.state.connector(name)
        if kind in ("create", "configure", "resume") and now.config is not None and not now.tasks_stale:
            self._leader.instances.mark_started(name, now.config_offset)
        self._leader.wake()

    def _await_round(self, name: ConnectorName, limit: Deadline) -> None:
        """A stop or delete is answered when nothing of the old generation can commit any more."""
        log: ConfigLog | None = None
        try:
            while not limit.expired:
                try:
                    state = self._leader.state()
                except CommandRefused:
                    # It is written; another leader may carry out the round. What it does stands in the config topic.
                    log = log or ConfigLog(self._connection, self._leader.worker_config.config_topic, limit)
                    state = log.refresh(limit)
                if not state.connector(name).round_pending:
                    return
                time.sleep(0.01)
        finally:
            if log is not None:
                log.close()
        raise CommandRefused(
            500,
            f"Request timed out. It is written, and the last tasks of {name} are still being fenced: look again",
        )


def _grant(name: ConnectorName, body: Mapping[str, Any]) -> TopicGrantRecord | None:
    """The topics of whoever saves the configuration, as the web process knows them."""
    grant = body.get("topic_grant")
    return TopicGrantRecord.parse("", name, grant) if grant else None


def _changes(entries: list[Mapping[str, Any]]) -> list[tuple[Partition, Offset | None]]:
    changes: dict[str, tuple[Partition, Offset | None]] = {}
    for entry in entries:
        partition = entry["partition"]
        if canonical(partition) in changes:
            raise CommandRefused(400, f"The partition {canonical(partition)} is named twice")
        changes[canonical(partition)] = (partition, entry.get("offset"))
    return list(changes.values())
