"""Carries out commands on the leader: checks the deadline, runs the command (`commands`), and answers."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass, field

from ringfence import messages
from ringfence.engine.leader import commands
from ringfence.engine.leader.commands.command import LeaderCommand, Outcome, Plan, WriteResult
from ringfence.engine.leader.commands.offsets import Changes, OffsetEntry
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.leader.offset_migration import OffsetAlteration
from ringfence.engine.leader.task_slices import TaskConfigs
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import CheckOffsets, pairs_of
from ringfence.engine.plugins.errors import OffsetsRefused, PluginError, UnknownPlugin
from ringfence.engine.preflight.validation import Validation
from ringfence.engine.questions import Json as Validated
from ringfence.fencing import stages
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import end_offsets
from ringfence.fencing.leader.fence_targets import may_keep_own_offsets
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset, SourceOffsets, canonical
from ringfence.fencing.topics.active_topics import key_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_logs import about
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import StatusTombstone
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.request import MalformedRequest, Refusal, SentCommand

_PLUGIN_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 0.02


class PendingAnswers:
    """The answers to commands whose senders wait for them. Thread-safe."""

    def __init__(self) -> None:
        self._answers: list[threading.Event] = []
        self._lock = threading.Lock()

    def add(self, answered: threading.Event) -> None:
        """Add one, which counts until it is set."""
        with self._lock:
            self._answers = [*(each for each in self._answers if not each.is_set()), answered]

    def wait(self, seconds: float) -> None:
        """Wait until those that are pending now are sent, for so long at most: those that follow do not count."""
        with self._lock:
            pending = list(self._answers)
        deadline = Deadline.after(seconds)
        for answered in pending:
            answered.wait(deadline.remaining)


@dataclass(slots=True)
class CommandContext:
    """What one command works with. Any thread may use it. Its methods raise `Refusal`.

    limit: when the command's sender stops waiting; account: whose it is; pending: gets its answer, once it writes.
    """

    leader: Leader
    plugins: PluginHost
    reporter: Reporter
    connection: Connection
    validation: Validation
    limit: Deadline
    account: str
    pending: PendingAnswers = field(default_factory=PendingAnswers)
    _offsets: Future[SourceOffsets] | None = None
    _answered: threading.Event = field(default_factory=threading.Event)

    def fork(self) -> "CommandContext":
        """Return a context for one of several connectors of the command."""
        return CommandContext(
            self.leader, self.plugins, self.reporter, self.connection, self.validation, self.limit, self.account
        )

    def write(self, plan: Plan) -> WriteResult:
        self.pending.add(self._answered)
        messages.do_behind_answer(self._answered.set)
        try:
            future = self.leader.submit(plan, self.limit, self.account, self._answered)
            result = future.result(timeout=self.limit.remaining + 5)
            stages.add(result.stages)
            return result
        except FutureTimeout:
            raise Refusal(
                500, "Request timed out while the leader was writing. Whether it was written is unknown: look again"
            ) from None

    def await_round(self, name: ConnectorName) -> None:
        """Wait until no task of the connector's old generation can commit any more. Raises `Refusal`."""
        self._answered.set()
        with stages.stage("fence"):
            self._await_round(name)

    def _await_round(self, name: ConnectorName) -> None:
        def is_over(state: ClusterState) -> bool:
            return not state.connector(name).round_pending

        while not self.limit.expired:
            try:
                if self.leader.await_state(is_over, self.limit.slice(_LOOK_SECONDS)):
                    return
            except Refusal:
                # It is written. If another leader carries out the round, the config topic shows its result.
                if is_over(self.leader.config_topic.read(self.limit)):
                    return
                time.sleep(self.limit.slice(_PAUSE_SECONDS))
        raise Refusal(
            500,
            f"Request timed out. It is written, and the last tasks of {name} are still being fenced: look again",
        )

    def validate(self, config: Mapping[str, str], *, java: bool) -> Validated:
        """Return Kafka Connect's validation object. java: whether Java plugins may run for the user."""
        try:
            return self.validation.validate(config["connector.class"].strip(), config, self.limit, java=java)
        except UnknownPlugin as error:
            raise Refusal(400, error.message) from error  # not the connector is unknown

    def read_offsets_ahead(self, name: ConnectorName, config: Mapping[str, str]) -> None:
        """Begin to read the offsets that `make_tasks` will need, beside the validation of the configuration."""
        if may_keep_own_offsets(config):
            return  # its topic would be created, for a configuration that may be refused
        if self.leader.instances.needs_offsets(config):
            self._offsets = self.leader.instances.read_ahead(name, config)

    def make_tasks(
        self, name: ConnectorName, config: Mapping[str, str], grant: TopicGrantRecord | None
    ) -> TaskConfigs | None:
        """Return the task configurations; None if the plugin fails, which makes the connector FAILED with the trace.

        grant: the topics that the connector may write to, None for all but internal ones.
        """
        try:
            return self.leader.instances.make(name, config, grant, self._offsets)
        except PluginError:
            return None  # the reconcile loop asks again, and puts the trace into the connector's status

    def look_up_version(self, config: Mapping[str, str]) -> None:
        """Look up the version of the connector's plugin for its status, even if no part of it is started."""
        with suppress(PluginError):
            self.plugins.version_of(config)

    def plan_offsets(self, connector: ConnectorState, entries: list[OffsetEntry] | None) -> tuple[Plan, bool]:
        """Return the plan that alters these offsets, or deletes all if there are no entries, and whether the connector
        has checked them.
        """
        name = connector.name
        alteration = OffsetAlteration(self.leader.offsets, name, connector, self.limit)
        changes = alteration.tombstones() if entries is None else _changes(entries)
        checked = self._check_offsets(connector, changes)
        return alteration.move(changes), checked

    def plan_ledger(self, connector: ConnectorState, decide: Callable[[list[SourceOffset]], Changes]) -> Plan:
        """Return the plan of the changes that `decide` derives from the current offsets."""
        alteration = OffsetAlteration(self.leader.offsets, connector.name, connector, self.limit)
        changes = decide(alteration.present_offsets)
        self._check_offsets(connector, changes)
        return alteration.move(changes)

    def _check_offsets(self, connector: ConnectorState, changes: Changes) -> bool:
        """Return whether the plugin has checked these offsets. Raises `Refusal` if it refuses them."""
        if connector.target is not TargetState.STOPPED:
            return False
        name, timeout = connector.name, min(_PLUGIN_SECONDS, self.limit.remaining)
        try:
            return self.plugins.ask(CheckOffsets(connector.config or {}, pairs_of(changes)), timeout)
        except OffsetsRefused as error:
            raise Refusal(400, f"Connector {name} refuses these offsets: {error.message}") from error
        except PluginError as error:
            raise Refusal(400, f"Connector {name} could not check these offsets: {error.message}") from error

    def forget_topics(self, name: ConnectorName) -> dict[int, int]:
        """Write tombstones for the active topics; return the ends of the status topic after them."""
        for topic in sorted(self.leader.statuses().topics.get(name, ())):
            self.reporter.status(StatusTombstone(key_of(name, topic)))
        self.reporter.flush(self.limit.slice(10))
        return self._ends(self.leader.worker_config.status_topic)

    def ends_of_offsets(self) -> dict[int, int]:
        return self._ends(self.leader.worker_config.offsets_topic)

    def _ends(self, topic: str) -> dict[int, int]:
        _, partitions = topic_identity(self.connection, topic, self.limit)
        return end_offsets(self.connection, topic, partitions, self.limit)


def _changes(entries: list[OffsetEntry]) -> list[tuple[Partition, Offset | None]]:
    changes: dict[str, tuple[Partition, Offset | None]] = {}
    for entry in entries:
        partition = entry["partition"]
        if canonical(partition) in changes:
            raise Refusal(400, f"The partition {canonical(partition)} is named twice")
        changes[canonical(partition)] = (partition, entry.get("offset"))
    return list(changes.values())


_REMEMBERED = 1000
_LATE = "Request timed out before it was carried out: nothing was changed. Send it again"


class CommandService:
    """Carries out commands on the leader. Thread-safe: each Celery task calls `execute` on its own thread."""

    def __init__(
        self, leader: Leader, plugins: PluginHost, reporter: Reporter, connection: Connection, validation: Validation
    ) -> None:
        self._leader = leader
        self._plugins = plugins
        self._reporter = reporter
        self._connection = connection
        self._validation = validation
        self._lock = threading.Lock()
        self._recent_ids: dict[str, None] = {}
        self._pending = PendingAnswers()

    def let_answers_pass(self) -> None:
        """Wait for a moment while senders wait for their answers. For threads of this process whose work follows from
        the same writes: it takes the interpreter, and a processor, from those that answer.
        """
        self._pending.wait(_ANSWER_SECONDS)

    def execute(self, command: SentCommand, limit: Deadline) -> dict[str, object]:
        """Carry out a command and return its answer. limit: when its sender stops waiting. Raises `Refusal`.

        A command whose deadline has passed is not carried out. The deadline is checked here, and again right before
        the write.
        """
        try:
            if limit.expired:
                raise Refusal(500, _LATE)
            self._once(command.get("request_id", ""))
            request = _parse(command)
            with about(request.on or ""):
                account = command.get("user", "")
                parts = self._leader, self._plugins, self._reporter, self._connection, self._validation
                context = CommandContext(*parts, limit, account, self._pending)
                self._leader.state()  # raises `Refusal` if another worker leads
                outcome = request.run(context, lambda done: self._report_done(command, done))
                return {"ok": True, **outcome.answer()}
        except Refusal as refusal:
            self._report(command, "refused", refusal.message)
            return refusal.answer()

    def _once(self, request_id: str) -> None:
        """Refuse a copy of a request: a client library may send a message again after a timeout."""
        with self._lock:
            if request_id in self._recent_ids:
                raise Refusal(409, "This request was received twice; the first one is carried out")
            if request_id:
                self._recent_ids[request_id] = None
            while len(self._recent_ids) > _REMEMBERED:
                self._recent_ids.pop(next(iter(self._recent_ids)))

    def _report_done(self, command: SentCommand, outcome: Outcome) -> None:
        self._report(command, "done", outcome.note, outcome.offset)

    def _report(self, command: SentCommand, outcome: str, message: str, offset: int = -1) -> None:
        if command["kind"] != commands.Ping.name:
            self._reporter.event(
                "command",
                command["connector"] or "",
                kind=command["kind"],
                outcome=outcome,
                message=message,
                offset=offset,
                user=command.get("user", ""),
            )


def _parse(command: SentCommand) -> LeaderCommand[object]:
    try:
        return commands.parse(command["kind"], command["connector"], command["body"])
    except MalformedRequest as error:
        raise Refusal(400, f"{error}. Web process and worker may be of different versions") from error
