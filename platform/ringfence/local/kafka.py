"""A real Kafka broker on this machine: one KRaft node, with broker and controller in one JVM.

The leaderships of an ended broker are taken away before it starts again; otherwise commit markers may be lost. Measured
with Kafka 4.3.0: a commit that succeeded, SIGKILL to the broker at once, a restart. In 4 of 6 rounds the record was not
visible to a read_committed consumer within 20 s (0 of 2 with the slower start before `class_archives`; 1 of 9 with
trace logs on: it is a race). With that: 0 of 6 after a kill, 0 of 4 after a stop.

The trace of a failed round: the starting broker reads in the metadata log that it still leads everything, and begins to
send the commit markers of its previous life. Then the controller fences that life, and for a moment no partition has a
leader. `TransactionMarkerChannelManager` logs "likely deleted already and hence can be skipped", completes the
transaction, and the coordinator that is elected next sends no marker for it.

So the controller is started alone first, with a short session timeout: it fences the previous life, and the broker that
starts then leads nothing until it is registered. That costs seconds, so `ringfence up` does it at its own end: only a
start after a kill waits for it. Controlled shutdown is off because it, too, takes leaderships away from a broker that
may have markers to send; this case was derived by reasoning, not measured.
"""

import json
import secrets
import shutil
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.local import class_archives
from ringfence.local.data_directory import write_private
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.jars import KAFKA_SERVER, resolve
from ringfence.local.java import find_java
from ringfence.local.kafka_login import ITERATIONS, USER, KafkaLogin, as_properties
from ringfence.local.ports import accepts, free_port, port_is_free

_FENCED_BROKER = b"Fencing broker 1 "
_ACTIVE = b"Performing controller activation"
_ACTIVE_SECONDS = 60.0
# Nothing is logged if the previous life is already fenced; a live registration's session would expire much earlier.
_FENCED_SECONDS = 3.0
_SETTINGS = {
    "process.roles": "controller",
    "broker.session.timeout.ms": "200",
    "broker.heartbeat.interval.ms": "50",
}
_BROKER_ONLY = ("advertised.listeners", "inter.broker.listener.name", "sasl.mechanism.inter.broker.protocol")


def fence(java: list[str], data: Path, log: Path) -> None:
    """Run only the controller of server.properties in `data`, until the broker's last registration is fenced."""
    config = data / "controller.properties"
    pairs = (line.partition("=") for line in (data / "server.properties").read_text().splitlines())
    settings = {key: value for key, _, value in pairs if key not in _BROKER_ONLY} | _SETTINGS
    listeners = settings["listeners"].split(",")
    settings["listeners"] = next(one for one in listeners if one.startswith("CONTROLLER:"))
    write_private(config, as_properties(settings))
    start = log.stat().st_size if log.exists() else 0

    def has_said(words: bytes) -> bool:
        with log.open("rb") as lines:
            lines.seek(start)
            return words in lines.read()

    command = [java[0], "-Dringfence.replication.level=info", *java[1:], "kafka.Kafka", str(config)]
    process = GuardedProcess.start("Kafka's controller", command, log=log, cwd=data)
    try:
        wait_until(lambda: has_said(_ACTIVE) or process.poll() is not None, _ACTIVE_SECONDS)
        if process.poll() is not None or not has_said(_ACTIVE):
            raise LocalError(f"Kafka's controller did not start with the data in {data}: see {log}")
        wait_until(lambda: has_said(_FENCED_BROKER) or process.poll() is not None, _FENCED_SECONDS)
    finally:
        process.stop(10)


_LOG4J = Path(__file__).with_name("kafka-log4j2.properties")
# A small heap and the serial collector: on two cores the parallel collectors cost more threads than they save.
_JVM = (
    "-server",
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile={_LOG4J}",
    # The second compiler waits ten times as long before it takes a method. A start costs 40 % less CPU time, and the
    # methods that carry records are hot enough all the same: after 100,000 records nothing is slower.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# In the first minutes the second compiler costs more than it saves: a third of a broker's CPU time.
_FIRST_COMPILER = ("-XX:TieredStopAtLevel=1",)
_SHORT_JVM = (*_FIRST_COMPILER, "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={_LOG4J}")
_TRAINED = "with a login"
_READY_LINE = b"Kafka Server started"
_FORMAT_SECONDS = 120
_USER_SECONDS = 60.0
_IDENTITY = "identity.json"
_FENCED = "fenced"


class EmbeddedKafka:
    """One broker on 127.0.0.1, with its data in `data`.

    `start` after `stop` or `kill` continues with the same data, port and cluster id. properties: added to the broker's
    settings; they take precedence. login: required at both listeners; None for none. Data that has no such login gets
    it at the next start. short_lived: the broker starts with less CPU time, but never becomes as fast. archive:
    replaces the archive of a warm start. The broker ends with this process, even if that is killed.
    """

    def __init__(
        self,
        data: Path,
        port: int,
        log: Path,
        *,
        pid_file: Path | None = None,
        properties: Mapping[str, str] | None = None,
        login: KafkaLogin | None = None,
        short_lived: bool = False,
        archive: tuple[str, ...] = (),
    ) -> None:
        self.data = data
        self.port = port
        self.log = log
        self.properties = dict(properties or {})
        self.login = login
        self._pid_file = pid_file
        self._jvm_options = _FIRST_COMPILER if short_lived else ()
        self._archive = archive
        self._process: GuardedProcess | None = None
        self._log_start = 0  # where the log of this start begins

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> GuardedProcess:
        """The broker's process. Raises LocalError if it was never started."""
        if self._process is None:
            raise LocalError("The embedded Kafka is not started: call start() first")
        return self._process

    @property
    def running(self) -> bool:
        """Return whether the process runs. It may not be ready yet."""
        return self._process is not None and self._process.poll() is None

    @property
    def needs_user(self) -> bool:
        """Return whether there is data, and the login's user, with this password, is not in it."""
        fingerprint = self._saved_identity().get("login")
        return self.login is not None and self._is_formatted and fingerprint != self.login.fingerprint

    def must_fence(self) -> bool:
        """Return whether a start takes seconds longer, since the last one did not end with `fence_ended`."""
        # A broker with another controller waits by itself until its last registration has expired.
        controller = "controller" in self.properties.get("process.roles", "controller")
        controller = controller and "," not in self.properties.get("controller.quorum.voters", "")
        ran = (self.data / "logs" / "__cluster_metadata-0").exists()
        return controller and ran and not (self.data / _FENCED).exists()

    def fence_ended(self) -> None:
        """Do now, after the end, what the next start would otherwise do first (see the module). Raises
        `LocalError`; then the next start does it.
        """
        if self.must_fence() and not self.running:
            jars = resolve("kafka", KAFKA_SERVER)
            archive = class_archives.made_options(jars, _TRAINED)
            self._fence([str(find_java()), *_SHORT_JVM, *archive, "-cp", str(jars / "*")])

    def _fence(self, java: list[str]) -> None:
        fence(java, self.data, self.log)
        (self.data / _FENCED).touch()

    def start(self, timeout: float = 120.0) -> None:
        """Start the broker; return when topics can be created. Formats the storage on the first start.

        Raises LocalError if the port is taken, or the broker ends or is not ready within `timeout` seconds.
        """
        self.launch()
        self.wait_ready(timeout)

    def launch(self) -> None:
        """Start the process, which is not ready yet: the first half of `start`."""
        if self.running:
            raise LocalError(f"The embedded Kafka on port {self.port} is running already: stop() it first")
        if not port_is_free("127.0.0.1", self.port):
            raise LocalError(f"Port {self.port} is in use, Kafka cannot listen there: choose another port")
        if self.needs_user:
            self._create_user()
        jars = resolve("kafka", KAFKA_SERVER)
        warm = () if self._archive else class_archives.jvm_options(jars, _train, _TRAINED)
        options = [*warm, "-cp", str(jars / "*")]
        config = self._configure([str(find_java()), *_SHORT_JVM, *options])
        if self.must_fence():
            self._fence([str(find_java()), *_SHORT_JVM, *options])
        (self.data / _FENCED).unlink(missing_ok=True)
        java = [str(find_java()), *_JVM, *self._archive, *self._jvm_options, *options]
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = GuardedProcess.start(
            "Kafka", [*java, "kafka.Kafka", str(config)], log=self.log, cwd=self.data, pid_file=self._pid_file
        )

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Wait until the broker is ready: the second half of `start`."""
        # The line is logged after the controller has unfenced the broker: only then does it get partitions.
        ended = wait_until(lambda: self._is_ready() or not self.running, timeout)
        if self.running and ended and accepts("127.0.0.1", self.port):
            return
        how = f"was not ready within {timeout:.0f} s" if self.running else f"ended with code {self.process.poll()}"
        self.process.kill()
        raise LocalError(f"Kafka {how}: {self._last_complaint()}; see {self.log}")

    def stop(self, grace: float = 20.0) -> None:
        """Stop cleanly: SIGTERM, and SIGKILL if that takes longer than `grace` seconds."""
        if self._process is not None:
            self._process.stop(grace)

    def kill(self) -> None:
        """Send SIGKILL; return when the process is gone."""
        if self._process is not None:
            self._process.kill()

    def _is_ready(self) -> bool:
        with self.log.open("rb") as lines:
            lines.seek(self._log_start)
            return _READY_LINE in lines.read()

    def _last_complaint(self) -> str:
        with self.log.open("rb") as lines:
            lines.seek(self._log_start)
            return _complaint(lines.read().decode(errors="replace"))

    def _configure(self, java: list[str]) -> Path:
        """Write server.properties, and format new storage."""
        self.data.mkdir(parents=True, exist_ok=True)
        identity = self._identity()
        config = self.data / "server.properties"
        ports = self.port, int(identity["controller_port"])
        listeners = self.login.broker_settings(*ports) if self.login else _open_listeners(*ports)
        settings = {**listeners, **_settings(self.data / "logs", ports[1]), **self.properties}
        write_private(config, as_properties(settings))
        if not self._is_formatted:
            self._format(java, config, identity["cluster_id"])
        return config

    @property
    def _is_formatted(self) -> bool:
        return (self.data / "logs" / "meta.properties").exists()

    def _format(self, java: list[str], config: Path, cluster_id: str) -> None:
        # A first start that was killed while formatting leaves an incomplete directory, without records.
        shutil.rmtree(self.data / "logs", ignore_errors=True)
        tool = ["kafka.tools.StorageTool", "format", "--config", str(config), "--cluster-id", cluster_id]
        user = self.login.storage_arguments() if self.login else []
        # Other users of this machine see a command line, but not what is in a file that it names.
        words = self.data / "format.arguments"
        write_private(words, "".join(f"{json.dumps(word)}\n" for word in [*tool, *user]))
        try:
            command = [*java, f"@{words}"]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=False)
        finally:
            words.unlink()
        if answer.returncode != 0:
            why = _complaint(answer.stdout + answer.stderr)
            raise LocalError(f"Kafka's storage in {self.data} could not be formatted: {why}")
        self._remember_user()

    def _create_user(self) -> None:
        """Run the broker for a moment with listeners that need no user, and create it."""
        # Imported here, because only data of an earlier release needs a client.
        from ringfence.fencing.kafka.client_pool import set_password

        assert self.login is not None
        port, controller_port = free_port(), int(self._identity()["controller_port"])
        settings = self.login.setup_settings(port, controller_port)
        setup = EmbeddedKafka(self.data, port, self.log, properties=settings, short_lived=True)
        connection = Connection(setup.bootstrap, self.login.setup_login(), "ringfence-up")
        try:
            setup.start()
            set_password(connection, USER, self.login.password, ITERATIONS, Deadline.after(_USER_SECONDS))
        except FencingError as error:
            raise LocalError(f"Kafka's data in {self.data} got no login: {error}; see {self.log}") from error
        finally:
            setup.stop()
        self._remember_user()

    def _remember_user(self) -> None:
        if self.login is not None:
            self._save_identity({**self._saved_identity(), "login": self.login.fingerprint})

    def _identity(self) -> dict[str, str]:
        """Return what stays the same over restarts; if the controller port is in use, another one is chosen."""
        identity = self._saved_identity()
        identity.setdefault("cluster_id", _new_cluster_id())
        controller = identity.get("controller_port")
        if controller is None or not port_is_free("127.0.0.1", int(controller)):
            identity["controller_port"] = str(next(port for port in iter(free_port, None) if port != self.port))
        self._save_identity(identity)
        return identity

    def _saved_identity(self) -> dict[str, str]:
        path = self.data / _IDENTITY
        identity: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return identity

    def _save_identity(self, identity: Mapping[str, str]) -> None:
        write_private(self.data / _IDENTITY, json.dumps(identity))


def _train(scratch: Path, options: tuple[str, ...]) -> None:
    # With a login: its classes are in the archive, too.
    kafka = EmbeddedKafka(scratch / "data", free_port(), scratch / "log", login=KafkaLogin.new(), archive=options)
    kafka.start()
    kafka.stop(grace=60)


def _complaint(output: str) -> str:
    """Return the most informative line of Kafka's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marks = ("ConfigException", "ERROR", "FATAL", "Exception")
    return next((line for mark in marks for line in lines if mark in line), lines[0] if lines else "it logged nothing")


def _new_cluster_id() -> str:
    """Return 16 random bytes in URL-safe base64, like `kafka-storage random-uuid`, but never with a leading dash."""
    return urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=").replace("-", "A")


def _open_listeners(port: int, controller_port: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


def _settings(logs: Path, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(logs),
        "auto.create.topics.enable": "true",
        # One broker: internal topics have one replica, and few partitions for a fast start.
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "5",
        # For 20 ms, a partition leader would keep a transaction waiting that follows the last one too closely.
        "add.partitions.to.txn.retry.backoff.ms": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "5",
        # An idle controller would write to its log, and flush it, twice a second.
        "metadata.max.idle.interval.ms": "5000",
        "group.initial.rebalance.delay.ms": "0",
        # The first record of a share group arrives after one heartbeat.
        "group.share.min.heartbeat.interval.ms": "1000",
        # It would move the leaders away while commit markers are being sent, see py.
        "controlled.shutdown.enable": "false",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }
