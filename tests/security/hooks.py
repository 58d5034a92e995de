"""A signed webhook on a real broker: its task and a web process in front of it, honest senders, and strangers."""

import contextlib
import hashlib
import hmac
import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from ringfence.connectors.builtin.webhook.task import WebhookSourceTask
from ringfence.connectors.class_names import class_name
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.status import State
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.ports import free_port
from tests.guarantees.stage import Stage
from tests.security.servers import clean_environment
from tests.support.attempts import Attempt
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.waiting import eventually

SECRET = "opensesame"
STRANGER = "127.0.0.2"
JSON = "org.apache.kafka.connect.json.JsonConverter"
TEXT = "org.apache.kafka.connect.storage.StringConverter"


@dataclass
class Hook:
    """One connector with its task, which `site` receives for."""

    stage: Stage
    config: Mapping[str, str]
    attempts: list[Attempt] = field(default_factory=list)
    port: int = 0
    endpoint: tuple[str, str, int, str] | None = None
    client: httpx.Client = field(default_factory=lambda: httpx.Client(verify=False, limits=httpx.Limits()))

    @property
    def name(self) -> str:
        return str(self.stage.connector)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/{self.name}"

    def start(self) -> None:
        """Start the next attempt, and wait until it runs."""
        number = len(self.attempts) + 1
        self.attempts.append(Attempt(self.stage, number, self.config, class_name(WebhookSourceTask), {}))

        def runs() -> bool:
            assert self.attempts[-1].running, self.attempts[-1].log
            status = self.stage.status()
            if status is None or status.attempt != number or status.state is not State.RUNNING:
                return False
            assert status.endpoint is not None
            where = status.endpoint
            self.endpoint = (where.id, where.host, where.port, where.secret)
            return True

        eventually(runs, 60, lambda: self.attempts[-1].log, pause=0.1)

    def require_unharmed(self) -> None:
        """The newest attempt still runs, and has not failed."""
        status = self.stage.status()
        assert self.attempts[-1].running, self.attempts[-1].log[-3000:]
        assert status is not None
        assert (status.state, status.attempt, status.trace) == (State.RUNNING, len(self.attempts), None)

    def post(
        self, body: bytes, key: str, *, signed: bool = True, client: httpx.Client | None = None, **headers: str
    ) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if signed:
            named["X-Signature"] = sign(body)
        named["Idempotency-Key"] = key
        return (client or self.client).post(self.url, content=body, headers=named, timeout=60)

    def values(self) -> list[bytes | None]:
        """The records that a read_committed reader sees."""
        log = TopicLog(self.stage.connection, self.config["topic"])
        try:
            return [record.value for record in log.read_to_end(Deadline.after(60))]
        finally:
            log.close()

    def close(self) -> None:
        self.client.close()
        for attempt in self.attempts:
            attempt.close()
        self.stage.close()


def sign(body: bytes) -> str:
    return hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


def make_hook(broker: Broker, **settings: str) -> Hook:
    stage = Stage(Connection(broker.bootstrap), unique("hook"))
    config = {
        "name": str(stage.connector),
        "connector.class": "WebhookSource",
        "tasks.max": "1",
        "topic": stage.data,
        "signature": "hmac",
        "signature.secret": SECRET,
        "idempotency.key": "header:Idempotency-Key",
        "key.converter": TEXT,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        **settings,
    }
    stage.configure(config)
    stage.count()
    return Hook(stage, config)


@contextlib.contextmanager
def site(root: Path, *hooks: Hook) -> Iterator[int]:
    """A web process in front of the running tasks; sets their ports."""
    port = free_port()
    log = root / f"site-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.security.hook_site", str(port)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=clean_environment(root),
        )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps({hook.name: hook.endpoint for hook in hooks}).encode() + b"\n")
        process.stdin.flush()

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"http://127.0.0.1:{port}/hooks/none", timeout=10).status_code == 405
            return False

        eventually(answers, 60, lambda: log.read_text(), pause=0.1)
        for hook in hooks:
            hook.port = port
        yield port
    finally:
        process.kill()
        process.wait()


class HonestSenders:
    """Each sends a few requests a second, whatever becomes of those before, and counts its answers."""

    def __init__(self, hook: Hook, senders: int = 6, per_second: float = 5.0) -> None:
        self._hook = hook
        self._pause = 1 / per_second
        self._usual = senders * per_second
        self._numbers = itertools.count()
        self._over = threading.Event()
        self.answers: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._send) for _ in range(senders)]
        for each in self._threads:
            each.start()

    def _send(self) -> None:
        prefix = unique("honest")
        with httpx.Client(verify=False, timeout=60) as client:
            due = time.monotonic()
            while not self._over.is_set():
                number = next(self._numbers)
                body = json.dumps({"honest": prefix, "number": number}).encode()
                try:
                    status = self._hook.post(body, f"{prefix}-{number}", client=client).status_code
                except httpx.HTTPError:
                    status = 0
                self.answers[status] += 1
                due = max(due + self._pause, time.monotonic() - 1)
                self._over.wait(max(0.0, due - time.monotonic()))

    def rate(self, seconds: float) -> float:
        """The 2xx answers per second from now on; no more than they send, where they make up for what was late."""
        before, start = self.answers[200], time.monotonic()
        time.sleep(seconds)
        return min(self._usual, (self.answers[200] - before) / (time.monotonic() - start))

    def end(self) -> Counter[int]:
        self._over.set()
        for each in self._threads:
            each.join(90)
        return self.answers


@contextlib.contextmanager
def strangers(*attacks: Callable[[threading.Event], None]) -> Iterator[None]:
    """They attack during the block. Each gets an event that says when it is over; its errors are raised at the end."""
    over = threading.Event()
    errors: list[BaseException] = []

    def run(attack: Callable[[threading.Event], None]) -> None:
        try:
            attack(over)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(attack,)) for attack in attacks]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join(90)
    if errors:
        raise errors[0]


def raw_post(hook: Hook, headers: bytes, body: bytes = b"", address: str = STRANGER) -> socket.socket:
    """A connection from another address with a request on it that nobody has read yet."""
    connection = socket.create_connection(("127.0.0.1", hook.port), 30, (address, 0))
    connection.sendall(f"POST /hooks/{hook.name} HTTP/1.1\r\nHost: localhost\r\n".encode() + headers + b"\r\n" + body)
    return connection


def status_of(connection: socket.socket) -> int:
    """Of its answer; 0 if the connection was cut without one."""
    with contextlib.suppress(ConnectionError):
        answer = connection.recv(4096)
        return int(answer.split(b" ", 2)[1]) if answer else 0
    return 0
