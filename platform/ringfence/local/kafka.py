"""A real Kafka broker on this machine: one KRaft node, with broker and controller in one JVM."""

import json
import secrets
import shutil
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from ringfence.local import cds_archive, unclean_shutdown
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.jars import KAFKA_SERVER, resolve
from ringfence.local.java import find_java
from ringfence.local.ports import accepts, free_port, port_is_free

_LOG4J = Path(__file__).with_name("kafka-log4j2.properties")
# A small heap and the serial collector: on two cores the parallel collectors cost more threads than they save.
_JVM = (
    "-server",
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile={_LOG4J}",
)
# In the first minutes the second compiler costs more than it saves: a third of a broker's CPU time.
_FIRST_COMPILER = ("-XX:TieredStopAtLevel=1",)
_FORMAT_JVM = (*_FIRST_COMPILER, "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={_LOG4J}")
_READY_LINE = b"Kafka Server started"
_FORMAT_SECONDS = 120


class EmbeddedKafka:
    """One broker on 127.0.0.1, with its data in `data`.

    `start` after `stop` or `kill` continues with the same data, port and cluster id. properties: added to the broker's
    settings; they take precedence. short_lived: the broker starts with less CPU time, but never becomes as fast.
    archive: replaces the archive of a warm start. The broker ends with this process, even if that is killed.
    """

    def __init__(
        self,
        data: Path,
        port: int,
        log: Path,
        *,
        pid_file: Path | None = None,
        properties: Mapping[str, str] | None = None,
        short_lived: bool = False,
        archive: tuple[str, ...] = (),
    ) -> None:
        self.data = data
        self.port = port
        self.log = log
        self.properties = dict(properties or {})
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
        jars = resolve("kafka", KAFKA_SERVER)
        warm = () if self._archive else cds_archive.jvm_options(jars, _train)
        classpath = ["-cp", str(jars / "*")]
        config = self._configure([str(find_java()), *_FORMAT_JVM, *warm, *classpath])
        java = [str(find_java()), *_JVM, *warm, *self._archive, *self._jvm_options, *classpath]
        # A broker with another controller waits by itself until its last registration has expired.
        controller = "controller" in self.properties.get("process.roles", "controller")
        if controller and (self.data / "logs" / "__cluster_metadata-0").exists():
            unclean_shutdown.fence(java, self.data, self.log)
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
        settings = _settings(self.data / "logs", self.port, int(identity["controller_port"])) | self.properties
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if not (self.data / "logs" / "meta.properties").exists():
            self._format(java, config, identity["cluster_id"])
        return config

    def _format(self, java: list[str], config: Path, cluster_id: str) -> None:
        # A first start that was killed while formatting leaves an incomplete directory, without records.
        shutil.rmtree(self.data / "logs", ignore_errors=True)
        tool = ["kafka.tools.StorageTool", "format", "--config", str(config), "--cluster-id", cluster_id]
        answer = subprocess.run([*java, *tool], capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=False)
        if answer.returncode != 0:
            why = _complaint(answer.stdout + answer.stderr)
            raise LocalError(f"Kafka's storage in {self.data} could not be formatted: {why}")

    def _identity(self) -> dict[str, str]:
        """Return what stays the same over restarts; if the controller port is in use, another one is chosen."""
        path = self.data / "identity.json"
        identity: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        identity.setdefault("cluster_id", _new_cluster_id())
        controller = identity.get("controller_port")
        if controller is None or not port_is_free("127.0.0.1", int(controller)):
            identity["controller_port"] = str(next(port for port in iter(free_port, None) if port != self.port))
        scratch = path.with_suffix(".tmp")
        scratch.write_text(json.dumps(identity))
        scratch.replace(path)
        return identity


def _train(scratch: Path, options: tuple[str, ...]) -> None:
    kafka = EmbeddedKafka(scratch / "data", free_port(), scratch / "log", archive=options)
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


def _settings(logs: Path, port: int, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(logs),
        "auto.create.topics.enable": "true",
        # One broker: internal topics have one replica, and few partitions for a fast start.
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "5",
        # An idle controller would write to its log, and flush it, twice a second.
        "metadata.max.idle.interval.ms": "5000",
        "group.initial.rebalance.delay.ms": "0",
        # The first record of a share group arrives after one heartbeat.
        "group.share.min.heartbeat.interval.ms": "1000",
        # It would move the leaders away while commit markers are being sent, see unclean_shutdown.py.
        "controlled.shutdown.enable": "false",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }
