"""A Spark cluster on this machine, started by the commands of docker-compose.yml, and attempts of a task on it."""

import os
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import psutil

from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.fencing.clock import Deadline
from ringfence.fencing.task.task_spec import Outcome, TaskSpec
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.guarded_process import GuardedProcess
from ringfence.local.java import find_java
from ringfence.local.ports import free_port, free_ports
from tests.guarantees.stage import Stage
from tests.support import compose
from tests.support.waiting import eventually

WORKERS = 2
SECRET = "a-secret-of-the-tests"


class Cluster:
    """A master and two workers, with other addresses, ports and sizes than in compose."""

    def __init__(self, root: Path, cores: int = 4) -> None:
        self._root = root
        self._cores = cores
        self._services = compose.services()
        self._ports = dict(zip(("7077", "8080"), free_ports(2), strict=True))
        self.master = self._start_master()
        self.workers = [self._start(f"worker-{number}", "spark-worker", str(free_port())) for number in range(WORKERS)]

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._ports['7077']}"

    @property
    def settings(self) -> dict[str, str]:
        """A worker's that uses it."""
        return {"spark.master": self.url, "spark.authenticate.secret": SECRET}

    def _start_master(self) -> GuardedProcess:
        return self._start("master", "spark-master", self._ports["8080"])

    def _start(self, name: str, service: str, webui: object) -> GuardedProcess:
        work = self._root / name
        work.mkdir(exist_ok=True)
        words = [word.replace("spark-master", "127.0.0.1") for word in compose.command(self._services[service])]
        given = {
            "127.0.0.1:7077": f"127.0.0.1:{self._ports['7077']}",
            "spark://127.0.0.1:7077": self.url,
            "7077": str(self._ports["7077"]),
            "8080": str(webui),
            "8081": str(webui),
            "10": str(self._cores),
            "2g": "1g",
        }
        scripts = Path(sys.executable).parent
        command = [str(scripts / words[0]), *(given.get(word, word) for word in words[1:])]
        settings = {
            key: compose.filled(value, {"SPARK_SECRET": SECRET}).replace("/srv/spark", str(work))
            for key, value in self._services[service]["environment"].items()
        }
        env = {
            **{key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"},
            **settings,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",  # Spark's scripts ask `python3` where Spark is
            "JAVA_HOME": str(find_java().resolve().parents[1]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return GuardedProcess.start(name, command, log=self._root / f"{name}.log", env=env, cwd=work)

    def await_workers(self) -> None:
        """Registered at the master, which the health check's address tells."""

        def alive() -> bool:
            try:
                with urlopen(f"http://127.0.0.1:{self._ports['8080']}/json/", timeout=5) as answer:
                    return bytes(answer.read()).count(b'"state" : "ALIVE"') == WORKERS
            except OSError:
                return False

        eventually(alive, 150, "the registered workers", pause=0.2)

    def restart_master(self) -> None:
        """Killed, and started again at the same address."""
        self.master.kill()
        self.master = self._start_master()
        self.await_workers()

    def tasks_of(self, worker: GuardedProcess) -> list[psutil.Process]:
        """The Python processes of its executors: those of tasks, and the daemons that they were forked from."""
        found = []
        for one in psutil.Process(worker.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a zombie, too: it has ended, and its daemon has not looked yet
                found += [one] if "spark.daemon" in " ".join(one.cmdline()) else []
        return found

    def busy(self, bootstrap: str) -> GuardedProcess:
        """The one worker where a task is connected to this broker."""
        (found,) = [worker for worker in self.workers if bootstrap in peers(worker.pid)]
        return found

    def stop(self) -> None:
        for one in (*self.workers, self.master):
            one.stop(grace=10)


def seen(stage: Stage) -> list[int]:
    log = TopicLog(stage.connection, stage.data)
    try:
        return [int(record.value or b"-1") for record in log.read_to_end(Deadline.after(60))]
    finally:
        log.close()


@contextmanager
def running_cluster(root: Path) -> Iterator[Cluster]:
    """With all of its workers, until the end of the block."""
    made = Cluster(root)
    try:
        made.await_workers()
        yield made
    finally:
        made.stop()


class Runs:
    """Attempts of the one task on the cluster."""

    def __init__(self, stage: Stage, spark: SparkHost) -> None:
        self._stage, self._spark = stage, spark
        self.config = {"name": "numbers", "topic": stage.data, "throughput": "500", "id": "0"}
        self.ends: queue.Queue[Outcome | Lost] = queue.Queue()
        stage.configure(self.config)
        stage.count()

    def start(self, attempt: int) -> TaskSpec:
        stage = self._stage
        spec = TaskSpec(
            stage.connection,
            stage.group,
            stage.topics,
            stage.task,
            stage.place(attempt),
            "connectors.builtin.verifiable.task.VerifiableSourceTask",
            self.config,
            self.config,
            {"offset.flush.interval.ms": "60000", "transaction.timeout.ms": "60000"},
        )
        self._spark.submit(spec, lambda spec, end: self.ends.put(end))
        return spec


def peers(pid: int) -> set[str]:
    """Where the process and its descendants are connected to."""
    found: set[str] = set()
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.Error):
            for one in process.net_connections(kind="tcp"):
                if one.status == psutil.CONN_ESTABLISHED:
                    found.add(f"{one.raddr[0]}:{one.raddr[1]}")
    return found
