"""A worker process: a Celery worker (threads) that also hosts one Spark driver, and may lead.

Threads: the leader's (membership, term, reconcile), the launcher's (placements to Spark jobs), the projection's, one
per running job, and Celery's own. None of them needs Redis or the database to keep tasks running.

Only one live worker has an id: a second one refuses to start, or waits for the end of a dead one.
"""

import json
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from ringfence import __version__, django_apps, encryption, log_format, telemetry
from ringfence.alerts.tasks import watch
from ringfence.connectors.api import ConfigException
from ringfence.connectors.config_providers import PROVIDERS, ConfigProviders
from ringfence.connectors.java import runtime as java_runtime
from ringfence.connectors.java.runtime import JavaRuntime
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.names import is_long, shorten
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine import peer_heartbeats, worker_threads
from ringfence.engine.browsing.readers import Readers
from ringfence.engine.celery_host import CeleryHost
from ringfence.engine.config_topic import ConfigTopic, await_admission
from ringfence.engine.dead_peers import PeerWatch, remove_predecessor
from ringfence.engine.leader.command_service import CommandService
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.leader.members import identity, worker_modes
from ringfence.engine.peer_heartbeats import Answers
from ringfence.engine.platform_topics import TopicGuard, end_on_sigterm
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.installations import Installer, PluginInstallations
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.preflight.validation import Validation, ValidationErrors
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.dead_letters import DeadLetters
from ringfence.engine.queries.previews import Previews
from ringfence.engine.queries.proofs import Proofs
from ringfence.engine.spark.connector_limits import let_go, limits_of
from ringfence.engine.spark.driver import SparkHost
from ringfence.engine.spark.launcher import Launcher
from ringfence.engine.worker_threads import (
    END_SECONDS,
    LOST_SECONDS,
    ProjectionMembership,
    find_leader,
    join_all,
    run_heartbeat,
    watch_redis,
)
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock, Deadline
from ringfence.fencing.errors import FencingError, Invalid, Retriable
from ringfence.fencing.ids import Incarnation, WorkerId, parse_member_client_id
from ringfence.fencing.kafka.consumer_groups import group_members
from ringfence.fencing.kafka.topic_admin import cluster_id
from ringfence.fencing.offsets.view import OffsetsView
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import Version
from ringfence.fencing.topics.connector_logs import LogPublisher, about
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import WorkerRecord
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.history import retention_settings
from ringfence.imports import without_collections
from ringfence.memory_limit import CALL_MEMORY_LIMIT, INSTANCES_MEMORY_LIMIT, memory_limit
from ringfence.task_slots import slots_of, usable_memory
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 180.0
_BACKOFF: Final = Backoff(0.1, 2.0)
_LOOK_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 5.0
_READERS_SECONDS: Final = 10.0
"""So long the processor is left to tasks that start. A page that needs a reader before starts one."""


class Member(Protocol):
    """A member of the workers' group."""

    @property
    def client_id(self) -> str: ...

    @property
    def topics(self) -> Iterable[str]: ...


def await_free_id(
    worker: str,
    group: str,
    config_topic: str,
    session_s: float,
    members: Callable[[], Iterable[Member]],
    stop: threading.Event,
    clock: Clock = SYSTEM_CLOCK,
    remove_ended: Callable[[Incarnation], None] = lambda _incarnation: None,
) -> None:
    """Return as soon as no member of the group has the id. Raises `Invalid` if a live worker has it.

    remove_ended: called once for each incarnation with the id, to take it out of the group if its process has ended.
    Another machine's dead worker is listed until its session expires. A broker that restarts begins all sessions again,
    and then this wait begins again, too. Raises `Retriable` if the group cannot be described for three minutes.
    """
    patience, failures = Deadline.after(PATIENCE_SECONDS, clock), 0
    held_until: Deadline | None = None
    tried: set[Incarnation] = set()
    while True:
        try:
            group_members = list(members())
        except Retriable as error:
            if patience.expired:
                raise
            if not failures:
                log.info("The worker waits for its group: %s", error)
            held_until, failures = None, failures + 1
            stop.wait(_BACKOFF.pause(failures))
            continue
        failures = 0
        _check(group_members, group, config_topic)
        client_ids = [parse_member_client_id(member.client_id) for member in group_members]
        incarnations = {client_id[1] for client_id in client_ids if client_id and client_id[0] == worker}
        if not incarnations:
            return
        if untried := incarnations - tried:
            tried |= untried
            for incarnation in untried:
                remove_ended(incarnation)
            continue
        held_until = held_until or Deadline.after(session_s + _GRACE_SECONDS, clock)
        if held_until.expired:
            raise Invalid(
                f"A live worker in group {group} already has the id {worker}: give this one another with --id, or "
                "stop that one"
            )
        stop.wait(_LOOK_SECONDS)


def _check(members: Iterable[Member], group: str, config_topic: str) -> None:
    strangers = [member.client_id for member in members if parse_member_client_id(member.client_id) is None]
    if strangers:
        raise Invalid(
            f"Group {group} has members that are not Ringfence workers ({strangers[0]}): give this cluster another "
            "group.id, or stop them first"
        )
    elsewhere = {topic for member in members for topic in member.topics} - {config_topic}
    if elsewhere:
        raise Invalid(
            f"Group {group} works on topic {sorted(elsewhere)[0]}, this worker is set to {config_topic}: give both "
            "the same config.storage.topic, or another group.id"
        )


_KAFKA_SECONDS = 60.0
_AGAIN_SECONDS = 3.0
_SWITCH_SECONDS = 0.0005


def main(
    worker_id: str,
    slots: int | None,
    java: JavaRuntime | None = None,
    installer: Installer | None = None,
    workers_here: int = 0,
) -> int:
    """Work until SIGTERM or SIGINT; return the process's exit code.

    slots: None for those that `task_slots` finds. workers_here: see there.
    java: runs Java connectors, None if none may run; installer: installs plugins, None if users may not.
    """
    log_format.describe_process(process="worker", worker=worker_id)
    log_format.write_to_stderr(log_format.least_level())
    # Celery logs arguments and results of each task at INFO: configurations with their secrets.
    for name in ("py4j", "celery.app.trace", "celery.worker.strategy"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # kafka-python logs each connection, and each attempt while a broker is away. Failed calls are reported anyway.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    # A thread that waits for an answer gets the interpreter sooner, beside threads that read topics. Starting a
    # connector waits for it several dozen times.
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        config = WorkerConfig.from_environment()
        encryption.require_key()
        with without_collections():
            django_apps.load()  # reads the environment and configures logging, before log handlers are added
        telemetry.start("worker", worker_id)
        environment = dict(os.environ)
        os.environ.setdefault(MARK, str(os.getpid()))  # `ringfence up` has set its own
        let_go(os.environ)  # before Spark and plugin processes inherit it
        retention_settings.check()
        if slots is None:
            slots = slots_of(config.settings, usable_memory(), workers_here)
            log.info("This worker takes %d tasks, by its settings and the memory that it may use", slots)
        return Worker(worker_id, slots, config, environment, java, installer).run()
    except (FencingError, encryption.NoKey, ConfigException) as error:
        log.error("%s", error)  # noqa: TRY400 - the message is for users, without a trace
        return 1
    finally:
        telemetry.stop()


class Worker:
    """Creates and connects the parts of a worker, and ends them in order."""

    def __init__(
        self,
        worker_id: str,
        slots: int,
        config: WorkerConfig,
        environment: Mapping[str, str] | None = None,
        java: JavaRuntime | None = None,
        installer: Installer | None = None,
    ) -> None:
        """environment: with which the process was started, if it has changed since."""
        if "@" in worker_id or not worker_id or is_long(worker_id):
            raise Invalid(f"{shorten(worker_id)!r} cannot be a worker id: use letters, digits, dots and dashes")
        self._config = config
        self._environment = environment
        self._java = java
        self._installer = installer
        self._slots = slots
        self._incarnation = secrets.token_hex(4)
        self._id = worker_id
        self._connection = config.connection(f"ringfence-{worker_id}")
        self._stop = threading.Event()
        self._exit_code = 0
        self._failure: Exception | None = None
        self._patience = END_SECONDS
        self._threads: list[threading.Thread] = []

    def run(self) -> int:
        """Run until a signal ends Celery's worker. Return the process's exit code, 1 if the Spark driver died."""
        config = self._config
        self._thread("clock", lambda: worker_threads.watch_clock(self._stop, _end_at_once))
        # Spark takes seconds to start, and so may the wait until the session of a dead worker with this id expires.
        starting = ThreadPoolExecutor(1, thread_name_prefix="spark")
        spark_to_be = starting.submit(self._start_spark)
        try:
            return self._work(config, spark_to_be)
        finally:
            self._stop.set()
            starting.shutdown(wait=True)
            if spark_to_be.exception() is None:
                spark_to_be.result().stop()

    def _start_spark(self) -> SparkHost:
        spark = SparkHost(self._slots, self._config.settings)
        spark.warm()
        return spark

    def _work(self, config: WorkerConfig, spark_to_be: "Future[SparkHost]") -> int:
        ids = TopicGuard(config, self._connection, self._incarnation).open(self._stop)
        config_topic = ConfigTopic(config, self._connection)
        await_admission(config_topic, self._stop, end_on_sigterm)
        self._thread("config topic", lambda: config_topic.run(self._stop))
        group, session_s = config.group_id, config.number("session.timeout.ms") / 1000
        await_free_id(
            self._id,
            group,
            config.config_topic,
            session_s,
            lambda: group_members(self._connection, group, Deadline.after(10)),
            self._stop,
            remove_ended=partial(
                remove_predecessor, self._connection, config.groups, config.status_topic, WorkerId(self._id)
            ),
        )
        reporter = Reporter(self._connection, config.status_topic, config.events_topic)
        LogPublisher(reporter.event, tags={"worker": self._id}).install()
        record = identity(self._id, self._incarnation, config, self._slots, __version__, reporter.now_ms())
        leader: list[Leader] = []
        limits = limits_of(config, cluster_id(self._connection, Deadline.after(_KAFKA_SECONDS)), self._environment)
        worker_limits.declare(limits)  # for preflight and the leader, which connect to addresses in configurations
        topics = TopicRules(config, config_topic.state, lambda: leader[0].statuses().topics)
        plugins = self._plugin_host(config, lambda: leader[0], topics, limits)
        view = OffsetsView(
            config.connection(f"ringfence-{self._id}-offsets"),
            config.offsets_topic,
            config.number("offsets.view.max.bytes"),
        )
        leader.append(Leader(config, record, plugins, reporter, config_topic, view, ids))

        def modes(limit: Deadline) -> dict[str, str] | None:
            return worker_modes(self._connection, config.group_id, leader[0].statuses(), limit)

        def known_state() -> tuple[ClusterState | None, bool]:
            if (own_state := leader[0].term_state()) is not None:
                return own_state, True  # a leader has written all that the topic says
            return config_topic.state(), False

        refusals = ValidationErrors(config, modes, known_state, config_topic.read)
        validation = Validation(plugins, config, refusals, topics)
        commands = CommandService(leader[0], plugins, reporter, self._connection, validation)
        launcher = Launcher(config, record, reporter, config_topic, limits, view, ids, self._java)
        previews = Previews(plugins, config, config_topic.read)
        letters = DeadLetters(plugins, config, topics)
        offsets = ConnectorOffsets(config, "ringfence-offsets-view", view)
        proofs = Proofs(plugins, config, topics, offsets, self._id)
        readers = Readers(limits, memory_limit(config.settings, CALL_MEMORY_LIMIT))
        # Not above: its import registers the tasks, in all of a process's Celery applications.
        from ringfence.engine.celery_tasks import Services, provide

        provide(
            Services(
                commands,
                plugins,
                config,
                validation,
                modes,
                previews,
                letters,
                topics,
                offsets,
                proofs,
                readers,
                config_topic.read,
            )
        )
        before_rows, find_version = commands.let_answers_pass, config_topic.version_of
        self._start_threads(config, record, leader[0], view, ids, reporter, before_rows, find_version)
        installations = PluginInstallations(self._id, self._incarnation, plugins, self._installer)

        def use_spark() -> None:
            """Take tasks, once Spark can run them; start what nobody needs before that."""
            host = spark_to_be.result()
            if self._stop.is_set():
                return
            # Not earlier: tasks are placed on workers that have a status record, and without Spark they cannot start.
            reporter.status(record)
            reporter.flush(10)
            host.watch(self._end_for_good)
            self._thread("launcher", lambda: launcher.run(host, self._stop, self._end_for_good))
            self._thread("encrypted-rows", self._renew_rows)
            self._thread("installations", lambda: installations.run(self._stop))
            if not self._stop.wait(_READERS_SECONDS):
                readers.warm()

        try:
            threading.Thread(target=lambda: self._or_end(use_spark), name="spark", daemon=True).start()
            CeleryHost(record, leader[0].leads_now).run(self._stop)
        finally:
            refusals.close()
            readers.close()
            self._end(_result_of(spark_to_be), plugins, reporter)
        if self._failure is not None:
            raise self._failure
        return self._exit_code

    def _or_end(self, start: Callable[[], None]) -> None:
        """Start something that this worker cannot do without. It is the body of a thread."""
        try:
            start()
        except Exception as error:  # noqa: BLE001 - the root of the thread; the main thread raises it
            self._failure = error
            self._end_for_good()

    def _plugin_host(
        self, config: WorkerConfig, leader: Callable[[], Leader], topics: TopicRules, limits: WorkerLimits
    ) -> PluginHost:
        return PluginHost(
            lambda name: leader().reconfigure(name),
            lambda name, error: leader().note_error(name, error.trace or error.message),
            on_warning=_warn,
            offsets_topics=topics.offsets_topics,
            folders=config.plugin_folders,
            call_memory=memory_limit(config.settings, CALL_MEMORY_LIMIT),
            instances_memory=memory_limit(config.settings, INSTANCES_MEMORY_LIMIT),
            environment={
                PROVIDERS: json.dumps(ConfigProviders.settings_of(config.settings)),
                worker_limits.ENVIRONMENT: json.dumps(limits.as_settings()),
                **({} if self._java is None else {java_runtime.ENVIRONMENT: json.dumps(self._java.as_settings())}),
            },
        )

    def _start_threads(
        self,
        config: WorkerConfig,
        record: WorkerRecord,
        leader: Leader,
        view: OffsetsView,
        ids: TopicIds,
        reporter: Reporter,
        before_rows: Callable[[], None],
        find_version: Callable[[str], Version | None],
    ) -> None:
        """Start the threads that need no Spark. before_rows: called before the projection writes. find_version: see
        `ConfigTopic.version_of`.
        """
        self._thread("heartbeat", lambda: run_heartbeat(record, self._connection, leader.leads_now, self._stop))
        self._thread("redis", lambda: watch_redis(record, leader, self._stop))
        self._thread("offsets", lambda: view.run(self._stop))
        self._thread("leader", lambda: leader.run(self._stop))
        connection = config.connection(f"ringfence-{self._id}-peers")
        peers = PeerWatch(connection, config.groups, lambda: leader.statuses().workers)
        self._thread("peers", lambda: peers.run(self._stop))
        answers = Answers((record.worker, record.incarnation), leader.statuses, leader.wait_for_status, reporter)
        self._thread("answers", lambda: answers.run(self._stop))
        self._thread("suspicions", lambda: peer_heartbeats.run(record, config, leader, reporter, self._stop))
        self._thread("grants", lambda: _follow_grants(leader, self._stop))
        self._thread("alerts", lambda: watch(self._incarnation, partial(find_leader, leader), self._stop))
        projection = partial(ProjectionMembership, config, record, ids, before_rows, find_version)
        self._thread("projection", lambda: projection().run(self._stop))
        guard = TopicGuard(config, self._connection, self._incarnation)
        self._thread("topics", lambda: guard.watch(ids, self._stop, lambda: self._end_for_good(LOST_SECONDS)))

    def _renew_rows(self) -> None:
        """Encrypt, once, stored values that are in plain text or under an older key."""
        django_apps.load()
        from ringfence.encrypted_rows import renew

        if count := renew():
            log.info("%d stored values are now under the newest encryption key", count)
        self._stop.wait()

    def _end_for_good(self, patience: float = END_SECONDS) -> None:
        """End all tasks and this process: the Spark driver died, or a topic is lost. The supervisor restarts it."""
        self._exit_code, self._patience = 1, patience
        os.kill(os.getpid(), signal.SIGTERM)

    def _thread(self, name: str, body: Callable[[], None]) -> None:
        def run() -> None:
            while not self._stop.is_set():
                try:
                    body()
                except Exception:
                    # The root of the thread. Everything else continues; this duty starts again here, or elsewhere.
                    log.exception("The %s thread failed; it starts again in %g s", name, _AGAIN_SECONDS)
                    self._stop.wait(_AGAIN_SECONDS)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _end(self, spark: SparkHost | None, plugins: PluginHost, reporter: Reporter) -> None:
        self._stop.set()
        join_all(self._threads, self._patience)
        graceful = self._config.number("task.shutdown.graceful.timeout.ms") / 1000
        if spark is not None:
            spark.end_tasks()
            spark.join(graceful)
        plugins.close()
        reporter.flush(5)
        log.info("Worker %s has ended", self._id)
        reporter.close()


def _result_of(spark: "Future[SparkHost]") -> SparkHost | None:
    return spark.result() if spark.done() and spark.exception() is None else None


def _end_at_once() -> None:
    """End without waiting for threads that may hang. Spark, tasks and plugin processes end with their parent."""
    os._exit(1)


def _follow_grants(leader: Leader, stop: threading.Event) -> None:
    django_apps.load()
    from ringfence.engine.leader.topic_grant_watch import GrantWatch

    GrantWatch(leader.ready.is_set, leader.state, leader.submit).run(stop)


def _warn(connector: str, text: str) -> None:
    """Log a warning of a connector's instance. Its page shows it, too (`LogPublisher`)."""
    with about(connector):
        log.warning("Connector %s: %s", connector, text)
