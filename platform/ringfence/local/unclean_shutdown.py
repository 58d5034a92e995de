"""Takes the leaderships away from an ended broker before it starts again; otherwise commit markers may be lost.

Measured with Kafka 4.3.0: a commit that succeeded, SIGKILL to the broker at once, a restart. In 4 of 6 rounds the
record was not visible to a read_committed consumer within 20 s (0 of 2 with the slower start before `class_archives`; 1
of 9 with trace logs on: it is a race). With this module: 0 of 6 after a kill, 0 of 4 after a stop.

The trace of a failed round: the starting broker reads in the metadata log that it still leads everything, and begins to
send the commit markers of its previous life. Then the controller fences that life, and for a moment no partition has a
leader. `TransactionMarkerChannelManager` logs "likely deleted already and hence can be skipped", completes the
transaction, and the coordinator that is elected next sends no marker for it.

So the controller is started alone first, with a short session timeout: it fences the previous life, and the broker that
starts then leads nothing until it is registered. That costs seconds, so `ringfence up` does it at its own end: only a
start after a kill waits for it. Controlled shutdown is off because it, too, takes leaderships away from a broker that
may have markers to send; this case was derived by reasoning, not measured.
"""

from pathlib import Path

from ringfence.local.data_directory import write_private
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.kafka_login import as_properties

_FENCED = b"Fencing broker 1 "
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
        wait_until(lambda: has_said(_FENCED) or process.poll() is not None, _FENCED_SECONDS)
    finally:
        process.stop(10)
