"""Counts whether a connector was exactly once (`fencing.proof`), on a thread of this worker, and reports the progress.

The result is written to the row that the web process created. So pages do not wait for a count that takes minutes, and
the report survives both processes.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django.db import DatabaseError, close_old_connections

from ringfence import __version__
from ringfence.connectors.config_providers import ConfigProviders, ResolvedConfig
from ringfence.connectors.sdk.delivery import DEAD_LETTERS
from ringfence.engine.fair_places import FairPlaces, account, enter
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import CountRecords, ReadRecordPositions, pairs_of
from ringfence.engine.plugins.errors import PluginError
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.hanging_transactions import ids_of
from ringfence.engine.questions import StartProof
from ringfence.fencing.clock import Deadline, epoch_ms
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.topic_admin import cluster_id
from ringfence.fencing.leader.fence_targets import AdminAccess, list_admin_access
from ringfence.fencing.proof.alignment import Check, Result
from ringfence.fencing.proof.count import Counting, ProofCounts, ProofScope
from ringfence.fencing.proof.positions import parse_declaration
from ringfence.fencing.proof.verdict import make_checks, to_json
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

AT_ONCE: Final = 2
_BEAT_SECONDS: Final = 1.0
_SOURCE_SECONDS: Final = 30.0
_ALTERED: Final = "The connector's source offsets were changed by a user, so this may be intended"


class Proofs:
    """One object per worker, thread-safe."""

    def __init__(
        self, plugins: PluginHost, worker: WorkerConfig, topics: TopicRules, offsets: ConnectorOffsets, worker_id: str
    ) -> None:
        self._plugins = plugins
        self._worker = worker
        self._topics = topics
        self._offsets = offsets
        self._id = worker_id
        self._places = FairPlaces(AT_ONCE)

    def start(self, request: StartProof) -> dict[str, object]:
        """Start a count, and return at once. Raises `Refusal` if too many run on this worker."""
        who = account.get()
        enter(self._places, "proofs", who)
        name = f"proof-{request.number}"
        threading.Thread(target=self._run, args=(request, who), name=name, daemon=True).start()
        return {"worker": self._id}

    def _run(self, request: StartProof, who: str | None) -> None:
        account.set(who)  # for the calls to plugins that it makes
        row = _Row(request.config["name"], request.number, self._id)
        resolution = ConfigProviders(self._worker.settings).attempt(request.config)[0]
        try:
            row.beat("starting", 0, 0)
            report = self._count(request, resolution, row)
            row.end(json.dumps(report))
        except (FencingError, Refusal) as error:
            text = error.message if isinstance(error, Refusal) else str(error)
            row.fail(resolution.hide(text))
        except Exception as error:
            # The root of the thread. Without a report, the page would wait for progress that never comes.
            log.exception("Counting for the proof of connector %s failed", request.config["name"])
            row.fail(f"The count failed with {type(error).__name__}: the worker's log has the trace. Start it again")
        finally:
            self._places.leave(who)
            close_old_connections()

    def _count(self, request: StartProof, resolution: ResolvedConfig, row: "_Row") -> dict[str, Any]:
        name = ConnectorName(request.config["name"])
        deadline = Deadline.after(request.limit_seconds)
        access = self._topics.access(name)
        topics = [topic for topic in request.topics if not access.internal(topic)]
        letters = request.config.get(DEAD_LETTERS, "").strip()
        stores = self._offsets.stores(resolution.config, deadline)
        declaration, no_positions = self._ask_declaration(request.config)
        scope = ProofScope(
            name,
            stores.effective.name,
            [topic for topic in topics if topic != letters],
            ids_of(name, request.tasks, self._worker),
            "" if access.internal(letters) else letters,
            parse_declaration(declaration),
        )
        troubles = []
        for admin in self._accesses(resolution.config):
            try:
                counts = Counting(admin.connection, stores.effective.reading, scope, deadline, row.beat).run()
            except FencingError as error:
                if deadline.expired:
                    raise
                troubles.append(f"with {admin.whose}: {error}")
            else:
                return self._report(request, counts, admin, no_positions, row)
        raise Refusal(500, f"The topics of connector {name} cannot be read {'; '.join(troubles)}")

    def _accesses(self, config: Mapping[str, str]) -> list[AdminAccess]:
        base = self._worker.connection("ringfence-proof")
        return list_admin_access(None, config, base, self._worker.settings)

    def _ask_declaration(self, config: Mapping[str, str]) -> tuple[dict[str, object] | None, str]:
        """Return where the connector's records have their place in the source; or None, and the reason."""
        try:
            positions = self._plugins.ask(ReadRecordPositions(config))
        except PluginError as error:
            return None, f"The connector could not be asked for its records' positions: {error.message}"
        return positions, "" if positions else "This connector's records do not name their place in the source"

    def _report(
        self, request: StartProof, counts: ProofCounts, admin: AdminAccess, no_positions: str, row: "_Row"
    ) -> dict[str, Any]:
        row.beat("asking the connector for its source", 0, 0)
        of_source, no_source = self._of_source(request.config, counts)
        checks = make_checks(counts, of_source, no_positions, no_source)
        checks = [_weaken(each, request) for each in checks]
        if counts.missing:
            text = f"Topics of the connector that do not exist (any more): {', '.join(counts.missing)}"
            checks.append(Check("topics", Result.UNKNOWN, text))
        return {
            **to_json(counts, checks),
            "connector": request.config["name"],
            "class": request.config.get("connector.class", ""),
            "version": self._plugins.version_of(request.config) or "",
            "ringfence": __version__,
            "worker": self._id,
            "cluster": {
                "id": cluster_id(admin.connection, Deadline.after(10)),
                "bootstrap": admin.connection.bootstrap,
            },
            "source_count": of_source,
        }

    def _of_source(self, config: Mapping[str, str], result: ProofCounts) -> tuple[int | None, str]:
        offsets = [(each.partition, each.offset) for each in result.offsets]
        if not offsets:
            return None, "No source offset is committed"
        try:
            counts = self._plugins.ask(CountRecords(config, pairs_of(offsets)), _SOURCE_SECONDS)
        except PluginError as error:
            return None, f"The connector could not count its source: {error.message}"
        known_counts = [each for each in counts if each is not None]
        if len(known_counts) < len(counts):
            return None, "This connector cannot count the records of its source up to an offset"
        return sum(known_counts), ""


def _weaken(check: Check, request: StartProof) -> Check:
    """Weaken a finding that proves nothing, because a user altered the offsets or transforms drop records."""
    if check.result is not Result.FAILED or check.name not in ("source", "gaps and doubles"):
        return check
    if request.altered:
        return replace(check, result=Result.UNKNOWN, message=f"{check.message}. {_ALTERED}", remedy="")
    if request.config.get("transforms", "").strip() and check.name == "source":
        return replace(check, result=Result.UNKNOWN, message=f"{check.message}. Transforms may drop records", remedy="")
    return check


class _Row:
    """The row of one count. If the database does not answer, only a progress report is lost."""

    def __init__(self, connector: str, number: int, worker: str) -> None:
        from ringfence.history.models import ProofRun  # a worker loads Django's models after its start

        self._rows = ProofRun.objects.filter(connector=connector, number=number)
        self._worker = worker
        self._beat_at = 0.0
        self._doing = ""

    def beat(self, doing: str, done: int, total: int) -> None:
        now = time.monotonic()
        if doing == self._doing and now < self._beat_at:
            return
        self._beat_at, self._doing = now + _BEAT_SECONDS, doing
        try:
            self._rows.update(
                state="running", worker=self._worker, doing=doing, done=done, total=total, beat_ms=epoch_ms()
            )
        except DatabaseError as error:
            log.info("The progress of a proof could not be written: %s", error)

    def end(self, report: str) -> None:
        self._rows.update(state="done", report=report, ended_ms=epoch_ms(), beat_ms=epoch_ms(), doing="")

    def fail(self, why: str) -> None:
        self._rows.update(state="failed", error=why, ended_ms=epoch_ms(), beat_ms=epoch_ms(), doing="")
