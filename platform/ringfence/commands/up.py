"""`ringfence up`: runs everything on this machine, in the foreground."""

import argparse
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import FrameType

from ringfence import log_format
from ringfence.heartbeats.starting import Starting
from ringfence.local import environment
from ringfence.local.data_directory import DataDirectory, default_root
from ringfence.local.database import is_prepared, migrate
from ringfence.local.errors import LocalError
from ringfence.local.jars import KAFKA_MEGABYTES, KAFKA_SERVER, is_kept, resolve
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import Address, free_port, http_address, kafka_address, port_is_free, text
from ringfence.local.running_platform import Job, Running, UpAccess
from ringfence.local.supervisor import KafkaRole, PythonRole, Supervisor, ValkeyRole, say, stage
from ringfence.local.valkey import EmbeddedValkey

READY_SECONDS = 180.0
WEB_GRACE = 10.0
WORKER_GRACE = 30.0
_DEFAULT_HTTP = "127.0.0.1:8083"
_USUAL_HTTP = "usual http"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(demo=False)
    parser.add_argument(
        "--data",
        type=Path,
        default=default_root(),
        metavar="DIR",
        help="folder for all state (default: %(default)s)",
    )
    parser.add_argument(
        "--http",
        type=http_address,
        metavar="HOST:PORT",
        help=f"where pages and REST are served (default: {_DEFAULT_HTTP})",
    )
    parser.add_argument(
        "--kafka",
        type=kafka_address,
        metavar="127.0.0.1:PORT",
        help="address of the embedded Kafka (default: a free port, the same on every start)",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a worker properties file; with bootstrap.servers no Kafka is embedded",
    )
    parser.add_argument("--workers", type=_count, default=1, metavar="N", help="number of workers (default: 1)")
    parser.add_argument(
        "--slots",
        type=_count,
        metavar="N",
        help="tasks a worker takes (default: the worker setting task.slots, or what the machine's memory carries)",
    )

    log_format.add_argument(parser)
    login = parser.add_mutually_exclusive_group()
    login.add_argument(
        "--no-login",
        action="store_true",
        help="require no login from any user of this machine (default: only your own processes need none)",
    )
    login.add_argument("--login", action="store_true", help="require a login, even from your own processes")


def run(args: argparse.Namespace) -> int:
    """Start, supervise, and stop on SIGTERM or Ctrl-C. Returns 0 after a requested stop."""
    log_format.choose(args.log_format)
    return serve(args)


def serve(args: argparse.Namespace, job: Job | None = None) -> int:
    """Like `run`, and also run `job` on its own thread, once a connector can be created. Raises the
    job's `LocalError`.
    """
    instance = DataDirectory(args.data)
    os.umask(0o077)  # inherited by all child processes: only this user can read their files
    with instance.lock():
        supervisor = Supervisor()
        signals = _Signals(supervisor)
        try:
            instance.await_last_one()
            running = _start(args, instance, supervisor)
            say(f"Ringfence is ready at {running.url}")
            for line in running.door.lines(running.url):
                say(line)
            future = _in_background(job, running) if job else None
            door = running.door
            while True:
                supervisor.tend()
                if door.is_over:
                    door = _tell_of_end(door, running.url)
                if future is not None and future.done():
                    code = future.result()
                    if code is not None:
                        return code
                    future = None
                time.sleep(0.1)
        except _Stop:
            return 0
        finally:
            signals.stopping = True
            supervisor.stop()


def _tell_of_end(door: UpAccess, url: str) -> UpAccess:
    """Say that no-login is over, and how to log in. Returns the access from now on."""
    door = door.renew()
    say("There is an account or a token, so nobody is let in without a login any more.")
    for line in door.lines(url):
        say(line)
    return door


def _in_background(job: Job, running: Running) -> "Future[int | None]":
    future: Future[int | None] = Future()

    def work() -> None:
        try:
            future.set_result(job(running))
        except BaseException as error:  # noqa: BLE001 - the root of the thread; raised again by result()
            future.set_exception(error)

    # A daemon, so that Ctrl-C does not wait for it.
    threading.Thread(target=work, name="job", daemon=True).start()
    return future


class _Stop(BaseException):
    """A signal requested the end. Not an Exception, so that no handler treats it as a failure."""


class _Signals:
    """The first Ctrl-C or SIGTERM stops everything in order, a second one immediately."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.stopping = False
        self._supervisor = supervisor
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.stopping:
            self._supervisor.end_now()
            return
        self.stopping = True
        raise _Stop


def _start(args: argparse.Namespace, instance: DataDirectory, supervisor: Supervisor) -> Running:
    """Start all processes and wait until the pages answer. Raises LocalError."""
    settings = environment.read_environment(args.config)
    http = _http(args.http or settings.get("RINGFENCE_HTTP"), instance)
    door = UpAccess.of(settings, text(http), instance, no_login=args.no_login, login=args.login)
    say(f"data, logs and process ids: {instance.root}")
    if os.geteuid() == 0:
        say("Running as root: connectors and their plugins can read all that root can. Use a separate user.")

    bootstrap = settings.get("CONNECT_BOOTSTRAP_SERVERS")
    if bootstrap and args.kafka:
        raise LocalError(
            f"--kafka is for the embedded Kafka, but bootstrap.servers is {bootstrap}: give only one of them"
        )
    kafka = None if bootstrap else _kafka(args.kafka, instance)
    if kafka is not None and not is_kept("kafka", KAFKA_SERVER):
        with stage(f"fetching Kafka's jars from Maven Central ({KAFKA_MEGABYTES} MB, once)"):
            resolve("kafka", KAFKA_SERVER)
    began = time.monotonic()
    if kafka is not None:
        environment.choose_encryption(instance)
    redis_url = settings.get("RINGFENCE_REDIS_URL") or _launch_valkey(instance, supervisor)
    env = environment.complete(
        environment.open_plugin_folder(settings, instance, private=door.private),
        instance,
        bootstrap=bootstrap or (kafka.bootstrap if kafka else ""),
        embedded_kafka=kafka is not None,
        redis_url=redis_url,
        http=text(http),
    )
    prepared = is_prepared(instance, env)
    if not prepared:
        _launch_kafka(kafka, supervisor)  # takes seconds, during which the database is prepared
        with stage("preparing the database"):
            migrate(instance, env)
    starting = Starting(instance.root / "starting", [*(["Kafka"] if kafka else []), *_workers(args)])
    _launch_processes(args, instance, supervisor, env, http, door, starting)
    instance.remember("http", text(http))
    if prepared:
        _launch_kafka(kafka, supervisor)
    if kafka is not None:
        with stage(f"starting Kafka on port {kafka.port}", since=began):
            kafka.wait_ready()
        instance.remember("kafka", str(kafka.port))
        starting.note_started("Kafka")
    _await_health(args, instance, supervisor, http, starting)
    say(f"Kafka is at {env['CONNECT_BOOTSTRAP_SERVERS']}; `ringfence topics tail TOPIC` reads a topic")
    if kafka is not None:
        say(f"Other clients of this Kafka log in with {instance.kafka_client_file}")
        for line in environment.lines_about_encryption(env):
            say(line)
    return Running(_url(http), env, instance, door)


def _launch_valkey(instance: DataDirectory, supervisor: Supervisor) -> str:
    """Start Valkey and return its URL."""
    valkey = EmbeddedValkey(
        instance.root / "redis",
        _redis_port(instance),
        instance.log("redis"),
        pid_file=instance.pid_file("redis"),
        password=instance.redis_password(),
    )
    with stage(f"starting Valkey on port {valkey.port}"):
        supervisor.launch(ValkeyRole(valkey))
    return valkey.url


def _launch_kafka(kafka: EmbeddedKafka | None, supervisor: Supervisor) -> None:
    if kafka is None:
        return
    if kafka.needs_user:
        say("Kafka's data has no user with this password yet: it is created, which takes some seconds, once")
    supervisor.launch(KafkaRole(kafka), ends_last=True)


def _launch_processes(
    args: argparse.Namespace,
    instance: DataDirectory,
    supervisor: Supervisor,
    env: Mapping[str, str],
    http: Address,
    door: UpAccess,
    starting: Starting,
) -> None:
    """Start web and workers, beside Kafka: what they need of it comes last. Raises LocalError."""
    served = ["web", "--http", text(http), *door.arguments(), "--starting", str(starting.file)]
    of_web = environment.for_demo(env, instance) if args.demo else env
    supervisor.launch(PythonRole("web", served, instance, door.environment(of_web), WEB_GRACE))
    for name in _workers(args):
        slots = ["--workers-here", str(args.workers)] if args.slots is None else ["--slots", str(args.slots)]
        arguments = ["worker", "--id", name, *slots]
        supervisor.launch(PythonRole(name, arguments, instance, environment.for_worker(env), WORKER_GRACE))
    say(f"The pages at {_url(http)} come first: they say what is still starting")


def _await_health(
    args: argparse.Namespace, instance: DataDirectory, supervisor: Supervisor, http: Address, starting: Starting
) -> None:
    """Wait until a connector can be created. Raises LocalError."""
    with stage("starting " + ", ".join(["web", *_workers(args)])):
        health = _Health(http)
        if not supervisor.tend_until(health.is_good, READY_SECONDS):
            raise LocalError(f"Not ready within {READY_SECONDS:.0f} s ({health.answer}): see {instance.root / 'logs'}")
    starting.finish()


def _workers(args: argparse.Namespace) -> list[str]:
    return [f"worker-{number}" for number in range(1, args.workers + 1)]


def _http(address: Address | str | None, instance: DataDirectory) -> Address:
    """Return the address to listen on: `address`, or the last one. If the latter's port is taken, a free one, this time
    only.

    Raises `LocalError` if the port of `address` is taken.
    """
    usual = instance.recall(_USUAL_HTTP) or instance.recall("http") or _DEFAULT_HTTP
    http = address if isinstance(address, tuple) else http_address(address or usual)
    if port_is_free(*http):
        instance.remember(_USUAL_HTTP, text(http))
        return http
    if address:
        raise LocalError(f"Port {http[1]} is in use on {http[0]}: choose another with --http {http[0]}:PORT")
    other = http[0], free_port()
    say(f"Port {http[1]} is in use, perhaps by another `ringfence up` or `make demo`: this one takes port {other[1]}")
    return other


def _kafka(address: Address | None, instance: DataDirectory) -> EmbeddedKafka:
    remembered = instance.recall("kafka")
    port = address[1] if address else int(remembered) if remembered else free_port()
    if not port_is_free("127.0.0.1", port):
        raise LocalError(
            f"Port {port} is in use, Kafka cannot listen there: choose another with --kafka 127.0.0.1:PORT"
        )
    return EmbeddedKafka(
        instance.root / "kafka",
        port,
        instance.log("kafka"),
        pid_file=instance.pid_file("kafka"),
        login=instance.create_kafka_login(),
    )


def _redis_port(instance: DataDirectory) -> int:
    remembered = instance.recall("redis")
    # No one else knows this port, so it can be replaced if it is taken.
    port = int(remembered) if remembered and port_is_free("127.0.0.1", int(remembered)) else free_port()
    instance.remember("redis", str(port))
    return port


class _Health:
    """GET /health: 200 only if a leader is known and ready, so that a connector can be created."""

    def __init__(self, http: Address) -> None:
        self._url = f"{_url(http)}/health"
        self.answer = "web has not answered yet"

    def is_good(self) -> bool:
        try:
            with urllib.request.urlopen(self._url, timeout=5) as response:  # noqa: S310 - our own http URL
                return bool(response.status == 200)
        except urllib.error.HTTPError as error:
            self.answer = f"/health answers {error.code}: {error.read(300).decode(errors='replace').strip()}"
        except OSError as error:
            self.answer = f"web does not answer: {error}"
        return False


def _url(http: Address) -> str:
    """Return the URL for a browser on this machine: one cannot connect to the wildcard address."""
    host, port = http
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://{text((host, port))}"


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
