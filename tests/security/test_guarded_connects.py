"""Clients that open connections by themselves are held to `egress.allow` where they cannot avoid it: at the `connect`.

Real clients, a real broker, and a cluster that names a listener of the platform as its broker.
"""

import contextlib
import errno
import ipaddress
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ringfence.connectors.builtin.kafka_source.cluster import Cluster
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk import guarded_connects, own_listeners, worker_limits
from ringfence.connectors.sdk.guarded_connects import run_guarded
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.client_pool import admin_client, forget_admin_clients
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.plain_producers import IdempotentProducer, PlainProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.support.broker import Broker
from tests.support.trap import Trap
from tests.support.waiting import eventually

EVERYTHING: Final = "public,private,loopback,0.0.0.0/0,::/0"
LOOPBACK: Final = ipaddress.IPv4Address("127.0.0.1")


@pytest.fixture
def limits() -> Iterator[Callable[..., None]]:
    before = worker_limits.current()
    yield lambda **more: worker_limits.declare(WorkerLimits(**more))
    worker_limits.declare(before)


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch, limits: Callable[..., None]) -> Iterator[Trap]:
    """A listener of the platform: this process is the platform's by its environment's mark."""
    monkeypatch.setenv(MARK, str(os.getpid()))
    limits(egress=EVERYTHING)
    made = Trap()
    yield made
    made.close()


def dial(host: str, port: int, timeout: float | None = None) -> int:
    """0, or the number of the error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as own:
        own.settimeout(timeout)
        try:
            own.connect((host, port))
        except OSError as error:
            return error.errno or -1
    return 0


@pytest.mark.parametrize("timeout", [None, 5.0])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_connection_is_refused_or_made(limits: Callable[..., None], host: str, timeout: float | None) -> None:
    listener = Trap()
    try:
        limits(egress="public,private")
        assert run_guarded(lambda: dial(host, listener.port, timeout)) == errno.EACCES
        assert listener.callers == []
        limits(egress=f"127.0.0.1:{listener.port},[::1]:{listener.port}")
        assert run_guarded(lambda: dial(host, listener.port, timeout)) == 0
        assert run_guarded(lambda: dial(host, listener.port + 1, timeout)) == errno.EACCES
        eventually(lambda: len(listener.callers) == 1, 5)
    finally:
        listener.close()


def test_what_nobody_listens_at_says_so(limits: Callable[..., None]) -> None:
    limits(egress="loopback")
    assert run_guarded(lambda: dial("127.0.0.1", 1)) == errno.ECONNREFUSED


def test_other_threads_are_free(limits: Callable[..., None]) -> None:
    limits(egress="public")
    listener = Trap()
    try:
        assert run_guarded(lambda: dial("127.0.0.1", listener.port)) == errno.EACCES
        assert dial("127.0.0.1", listener.port) == 0
    finally:
        listener.close()


def test_a_thread_and_a_process_that_are_started_are_held_too(limits: Callable[..., None]) -> None:
    limits(egress="public")
    listener = Trap()
    code = f"import socket; socket.create_connection(('127.0.0.1', {listener.port}))"
    numbers: list[int] = []

    def start() -> tuple[threading.Thread, subprocess.Popen[bytes]]:
        thread = threading.Thread(target=lambda: numbers.append(dial("127.0.0.1", listener.port)))
        thread.start()
        return thread, subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)

    try:
        thread, process = run_guarded(start)
        thread.join()
        _, said = process.communicate(timeout=60)
        assert numbers == [errno.EACCES]
        assert b"PermissionError" in said
        assert listener.callers == []
    finally:
        listener.close()


def test_the_first_segment_brings_no_data_along(limits: Callable[..., None]) -> None:
    """TCP Fast Open connects without `connect`."""
    limits(egress="public")
    listener = Trap()

    def send(call: Callable[[socket.socket], object]) -> int:
        with socket.socket() as own:
            try:
                call(own)
            except OSError as error:
                return error.errno or -1
        return 0

    where = ("127.0.0.1", listener.port)
    try:
        sends: list[Callable[[socket.socket], object]] = [
            lambda own: own.sendto(b"x", socket.MSG_FASTOPEN, where),
            lambda own: own.sendmsg([b"x"], [], socket.MSG_FASTOPEN, where),
        ]
        for each in sends:
            assert run_guarded(lambda each=each: send(each)) == errno.EOPNOTSUPP  # type: ignore[misc]
        assert listener.callers == []
    finally:
        listener.close()


def test_names_can_still_be_looked_up(limits: Callable[..., None]) -> None:
    """A datagram, and a Unix socket, go on."""
    limits(egress="public")

    def connect() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.connect(("127.0.0.1", 53))
        ours, theirs = socket.socketpair()
        ours.close()
        theirs.close()
        assert socket.getaddrinfo("localhost", 80)

    run_guarded(connect)


def test_a_forked_process_has_a_guard_of_its_own(limits: Callable[..., None]) -> None:
    limits(egress="public")
    listener = Trap()
    try:
        assert run_guarded(lambda: dial("127.0.0.1", listener.port)) == errno.EACCES
        child = os.fork()
        if child == 0:
            right = run_guarded(lambda: dial("127.0.0.1", listener.port)) == errno.EACCES
            os._exit(0 if right else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        listener.close()


def test_a_process_that_ends_lets_nobody_wait() -> None:
    """Its answering threads stand still at the end, and a client that is freed then waits for its own threads."""
    code = """
import atexit, socket, threading
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.guarded_connects import run_guarded

class Client:
    def __del__(self):
        self.thread.join()

client = Client()
may = threading.Event()
def dial():
    may.wait()
    try:
        socket.create_connection(("127.0.0.1", 1))
    except OSError as error:
        print(error.errno)
def start():
    client.thread = threading.Thread(target=dial, daemon=True)
    client.thread.start()
atexit.register(client.__del__)
atexit.register(may.set)
worker_limits.declare(worker_limits.of_settings({"egress.allow": "public"}))
run_guarded(start)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert int(done.stdout) == errno.ENOSYS, done


class Misleading:
    """Passes everything on to a broker, and names another port in place of its own in all that it answers."""

    def __init__(self, broker: int, named: int) -> None:
        self._broker = broker
        host = b"127.0.0.1"
        self._own, self._other = (host + struct.pack(">i", port) for port in (broker, named))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(("127.0.0.1", self._broker))
                for source, target in ((client, broker), (broker, client)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(1 << 16):
                target.sendall(data.replace(self._own, self._other))


def _read(connection: Connection, topic: str) -> None:
    reader = PartitionReader(connection, topic, {0: 0})
    try:
        for _ in range(20):
            reader.poll(0.1, 10)
    finally:
        reader.close()


def _write(connection: Connection, topic: str) -> None:
    PlainProducer(connection).write(topic, [(b"k", b"v")], Deadline.after(2))


def _send(connection: Connection, topic: str) -> None:
    producer = IdempotentProducer(connection)
    produce = producer.reporting(lambda _: None, lambda: None)
    produce(topic, b"v", None)
    producer.serve(2.0)


def _administer(connection: Connection, _: str) -> None:
    admin_client(connection).list_consumer_groups(request_timeout=2).result(5)


def _copy(connection: Connection, topic: str) -> None:
    Cluster({"bootstrap.servers": connection.bootstrap}, seconds=2).bounds([(topic, 0)])


USES: Final = {"reader": _read, "writer": _write, "sender": _send, "admin": _administer, "KafkaSource": _copy}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("guarded", [True, False])
def test_a_cluster_leads_no_client_to_a_listener_of_the_platform(
    broker: Broker,
    unique: Callable[[str], str],
    trap: Trap,
    monkeypatch: pytest.MonkeyPatch,
    use: str,
    guarded: bool,
) -> None:
    """Without the guard, the very same calls do reach it: that is what makes this a test."""
    topic = unique("misled")
    create_topics(Connection(broker.bootstrap), [TopicSpec(topic, 1)], Deadline.after(20))
    cluster = Misleading(int(broker.bootstrap.rpartition(":")[2]), trap.port)
    if not guarded:
        monkeypatch.setattr(
            "ringfence.connectors.builtin.kafka_source.cluster.run_guarded", lambda make, names=(): make()
        )
    worker_limits.declare(WorkerLimits(egress=EVERYTHING, home="127.0.0.1:1"))
    try:
        with contextlib.suppress(FencingError, KafkaException):
            USES[use](Connection(cluster.bootstrap, guarded=guarded), topic)
        assert bool(trap.callers) is not guarded
    finally:
        cluster.close()
        forget_admin_clients()


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_a_container_that_hides_descriptors_is_no_way_out(
    limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    """Without CAP_SYS_PTRACE the address is judged, and the client connects by itself."""

    def refuse(_thread: int, _descriptor: int) -> int:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(guarded_connects, "_copy_descriptor", refuse)
    listener = Trap()
    try:
        limits(egress="public")
        assert run_guarded(lambda: dial("127.0.0.1", listener.port, timeout)) == errno.EACCES
        assert listener.callers == []
        limits(egress="loopback")
        assert run_guarded(lambda: dial("127.0.0.1", listener.port, timeout)) == 0
    finally:
        listener.close()


def test_every_thread_of_a_client_is_filtered(broker: Broker, limits: Callable[..., None]) -> None:
    def threads() -> dict[str, str]:
        found = {}
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):
                if (task / "comm").read_text().startswith("rdk:"):
                    status = (task / "status").read_text()
                    found[task.name] = next(line for line in status.splitlines() if line.startswith("Seccomp:"))
        return found

    limits(egress=EVERYTHING, home=broker.bootstrap)
    before = threads()
    client = Connection(broker.bootstrap, guarded=True).create(
        lambda: AdminClient({"bootstrap.servers": broker.bootstrap})
    )
    assert client.list_topics(timeout=10).topics
    own = {number: line for number, line in threads().items() if number not in before}
    assert own
    assert {line.split()[1] for line in own.values()} == {"2"}


def test_a_name_that_is_allowed_is_known_by_its_addresses(limits: Callable[..., None]) -> None:
    answers = {"db.example.com": ["10.1.1.1"], "other.example.com": ["10.1.1.2"], "exact.example.org": ["10.1.1.3"]}
    rules = guarded_connects._Rules(lambda host, _: answers[host])
    limits(egress="public,*.example.com,exact.example.org:5432")
    rules.note(["jdbc:postgresql://DB.example.com:5432/x", "evil-example.com", "a.other.net"])

    def permits(address: str, port: int = 5432) -> bool:
        return rules.permits(ipaddress.ip_address(address), port)

    assert permits("8.8.8.8")
    assert permits("10.1.1.1")
    assert permits("10.1.1.3")
    assert not permits("10.1.1.3", 5433)
    assert not permits("10.1.1.2")  # nobody named it
    answers["db.example.com"] = ["10.9.9.9"]
    assert permits("10.9.9.9")
    assert permits("10.1.1.1")  # it rotates
    answers["db.example.com"] = ["169.254.169.254", "127.0.0.1"]
    assert not permits("169.254.169.254")


def test_the_workers_own_kafka_is_open_to_all(limits: Callable[..., None]) -> None:
    limits(egress="public", home="127.0.0.1:9092")
    rules = guarded_connects._Rules()
    assert rules.permits(LOOPBACK, 9092)
    assert not rules.permits(LOOPBACK, 9093)
    assert not own_listeners.is_broker(LOOPBACK, 9093)


def test_without_the_kernels_help_the_work_is_done_and_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(guarded_connects, "_install_filter", refuse)
    monkeypatch.setattr(guarded_connects, "_process", guarded_connects._Process())
    assert run_guarded(lambda: 7) == 7
    assert run_guarded(lambda: 8) == 8
    assert caplog.text.count("cannot be held to egress.allow") == 1
