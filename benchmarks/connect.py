"""The real Kafka Connect 4.3.0 for comparison: one distributed worker, run as by its own start script."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.rest import BenchmarkError, Rest
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.jars import KAFKA_VERSION, Coordinate, resolve
from ringfence.local.java import find_java
from ringfence.local.ports import free_port

STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
FILE = Coordinate("org.apache.kafka", "connect-file", KAFKA_VERSION)
JARS = (
    Coordinate("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
    FILE,
    # Kafka uses slf4j 1.7 and includes log4j without the binding between the two.
    Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
VERIFIABLE = Coordinate("org.apache.kafka", "connect-test-plugins", KAFKA_VERSION)
"""Kafka's own VerifiableSource."""
MIRROR = Coordinate("org.apache.kafka", "connect-mirror", KAFKA_VERSION)
"""MirrorMaker 2's connectors."""
TRANSFORMS = Coordinate("org.apache.kafka", "connect-transforms", KAFKA_VERSION)
# The defaults of bin/connect-distributed.sh and bin/kafka-run-class.sh.
_JVM = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# For tests, which it does not outlive: the second compiler and a parallel collector take more than they give back.
_SHORT_JVM = ("-Xms64M", "-Xmx1G", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRefs = console
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
"""
READY_SECONDS = 240.0


class ConnectWorker:
    """Kafka Connect's ConnectDistributed with its own group and topics, exactly once, REST on a free port."""

    def __init__(
        self,
        root: Path,
        bootstrap: str,
        more: tuple[Coordinate, ...] = (),
        login: Mapping[str, str] | None = None,
        *,
        short_lived: bool = False,
    ) -> None:
        """more: further plugins. login: the settings of a Java client. short_lived: it takes less CPU time for some
        minutes, but never becomes as fast.
        """
        self._jars = (*JARS, *more)
        self._root = root
        self._bootstrap = bootstrap
        self._login = dict(login or {})
        self._jvm = _SHORT_JVM if short_lived else _JVM
        self._process: GuardedProcess | None = None
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        log4j, properties = self._root / "log4j2.properties", self._root / "worker.properties"
        log4j.write_text(_LOG4J)
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        jars = resolve("connect", self._jars)
        command = [str(find_java()), *self._jvm, f"-Dlog4j2.configurationFile={log4j}", "-cp", str(jars / "*")]
        log = self._root / "connect.log"
        self._process = GuardedProcess.start(
            "connect", [*command, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)], log=log
        )
        with Rest(self.url) as rest:
            # Only members of the group return the list of connectors: then one can be created.
            if not wait_until(lambda: rest.is_ready("/connectors"), READY_SECONDS, pause=0.2):
                self.stop()
                raise BenchmarkError(f"Kafka Connect was not ready within {READY_SECONDS:.0f} s: see {log}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(grace=20)

    def _settings(self) -> dict[str, str]:
        topics = {
            f"{kind}.storage.{what}": value
            for kind in ("config", "offset", "status")
            for what, value in (("topic", f"kafka-connect-{kind}"), ("replication.factor", "1"))
        }
        clients = ("", "producer.", "consumer.", "admin.")
        return {
            "bootstrap.servers": self._bootstrap,
            **{f"{client}{key}": value for client in clients for key, value in self._login.items()},
            "group.id": "kafka-connect",
            "exactly.once.source.support": "enabled",
            "listeners": f"http://127.0.0.1:{self._port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **topics,
        }
