"""Carries out commands on the leader: checks the deadline, runs the command's class (`commands`), and answers."""

import threading

from ringfence.engine.leader.commands import Outcome, command_of
from ringfence.engine.leader.leader_side import LeadingWorker
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.plugins import PluginHost
from ringfence.engine.preflight.validation import Validation
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.connector_logs import about
from ringfence.fencing.topics.reporter import Reporter
from ringfence.requests import commands
from ringfence.requests.commands import Command, SentCommand
from ringfence.requests.request import MalformedRequest, Refusal

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
                side = LeadingWorker(
                    self._leader, self._plugins, self._reporter, self._connection, self._validation, limit, account
                )
                side.state()  # raises `Refusal` if another worker leads
                outcome = command_of(request, side).run(lambda done: self._report_done(command, done))
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


def _parse(command: SentCommand) -> Command[object]:
    try:
        return commands.parse(command["kind"], command["connector"], command["body"])
    except MalformedRequest as error:
        raise Refusal(400, f"{error}. Web process and worker may be of different versions") from error
