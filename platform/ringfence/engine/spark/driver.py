"""The worker's Spark driver. Each task attempt is a job with one partition, in a separate Python process.

PySpark has no public way to the driver's process, a JVM. All private parts of PySpark that we use are in this module;
the highest minor version is pinned, and `tests/engine/test_driver_process.py` is their canary.
"""

import contextlib
import itertools
import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from py4j.protocol import INPUT_CONVERTER, Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from ringfence.connectors.sdk.secret_names import secret_by_name
from ringfence.crashes import find_crash
from ringfence.engine.spark.shared_process import SharedProcess, SharedProcesses, may_share
from ringfence.fencing.ids import TaskId
from ringfence.fencing.task.task_spec import Outcome, TaskSpec
from ringfence.fencing.topics.connector_logs import about
from ringfence.fencing.topics.status import FAILED, failed_record
from ringfence.memory_limit import explain, memory_limit
from ringfence.spark_settings import DRIVER_MEMORY, OUT_OF_MEMORY, is_local, spark_settings
from ringfence.task_slots import SHARED, choose_isolation


def wait_for_end(spark: SparkContext) -> int:
    """Return the exit code of the driver's JVM, when it has ended; negative for the signal that killed it."""
    gateway: Any = spark._gateway
    code: int = gateway.proc.wait()
    return code


def end_driver(spark: SparkContext, seconds: float = 60.0) -> None:
    """Let the driver's JVM of a stopped context end in order, and wait for that; else it ends with this process.

    Raises subprocess.TimeoutExpired.
    """
    gateway: Any = spark._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(seconds)


log = logging.getLogger(__name__)

_SHARED_LOST = "The process that the task shared with others has ended: {}"


@dataclass(frozen=True, slots=True)
class Lost:
    """The job ended without an outcome: its process, executor or driver died. reason: a message."""

    reason: str


OnEnd = Callable[[TaskSpec, Outcome | Lost], None]


class SparkHost:
    """Submits attempts to Spark, and tracks which of them run."""

    def __init__(self, slots: int, worker: Mapping[str, str] | None = None) -> None:
        """slots: the maximum of concurrent tasks; worker: the worker's settings, of which Spark's are used.

        Raises ValueError.
        """
        self._threads: dict[tuple[TaskId, int, int], threading.Thread] = {}
        self._shared = SharedProcesses(self._start_shared) if choose_isolation(worker or {}) == SHARED else None
        self._ends: dict[str, OnEnd] = {}
        self._alone: set[TaskId] = set()
        """Tasks that no longer share a process: they cannot, or ran in one that crashed."""
        self._numbers = itertools.count(1)
        settings = spark_settings(worker or {}, slots)
        self._memory = settings[DRIVER_MEMORY]
        # PySpark's driver asks the environment first.
        os.environ["PYSPARK_PYTHON"] = settings.get("spark.pyspark.python", sys.executable)
        if is_local(settings):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        self._stopping = False
        _forget_numpy()
        with _secret_file(settings) as path:
            os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {path} pyspark-shell" if path else "pyspark-shell"
            self._spark = SparkContext(conf=SparkConf().setAll(list(_not_secret(settings).items())))
        self._spark.setLogLevel("ERROR")

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call `on_end` if the driver's JVM ends before `stop`: without it, no job can be started."""

        def wait() -> None:
            code = wait_for_end(self._spark)
            if not self._stopping:
                log.error("%s; this worker starts again", _how_it_ended(code, self._memory))
                on_end()

        threading.Thread(target=wait, name="spark-watch", daemon=True).start()

    def warm(self) -> None:
        """Run an empty job, so that the daemon is up before the first task needs it."""
        self._spark.parallelize([0], 1).map(_nothing).collect()

    def submit(self, spec: TaskSpec, on_end: OnEnd, variables: Mapping[str, str] | None = None) -> None:
        """Start the attempt on a new thread. `on_end` is called there when the attempt has ended, for whatever reason.

        variables: the environment of its Python process. A process with other variables is not used.
        """
        if self._shared is not None and not variables and spec.task not in self._alone and may_share(spec):
            self._ends[group_of(spec)] = on_end
            self._shared.submit(group_of(spec), spec)
        else:
            self._submit_alone(spec, on_end, variables)

    def _submit_alone(self, spec: TaskSpec, on_end: OnEnd, variables: Mapping[str, str] | None = None) -> None:
        key = (spec.task, spec.placement.generation, spec.placement.attempt)
        spark = self._with_variables(variables or {})
        thread = threading.Thread(
            target=self._run, args=(spark, spec, key, on_end), name=f"job-{spec.task}", daemon=True
        )
        self._threads[key] = thread
        thread.start()

    def _start_shared(self) -> SharedProcess:
        group = f"shared-{next(self._numbers)}"

        def run_job(path: str) -> None:
            self._spark.setJobGroup(group, "small tasks")
            self._spark.parallelize([path], 1).map(_run_shared).collect()

        return SharedProcess(run_job, lambda: self._spark.cancelJobGroup(group), self._take_outcome, self._lose)

    def _take_outcome(self, spec: TaskSpec, outcome: Mapping[str, Any] | None) -> None:
        on_end = self._ends.pop(group_of(spec))
        if outcome is None:
            self._alone.add(spec.task)
            self._submit_alone(spec, on_end)
            return
        with about(spec.task.connector):
            on_end(spec, _outcome(outcome))

    def _lose(self, spec: TaskSpec, error: str) -> None:
        crash = find_crash(error)
        if crash is not None:
            self._alone.add(spec.task)
        with about(spec.task.connector):
            self._ends.pop(group_of(spec))(spec, Lost(_SHARED_LOST.format(crash or _root_cause(error.splitlines()))))

    def _with_variables(self, variables: Mapping[str, str]) -> SparkContext:
        """Return the context for jobs with these variables: Spark keeps one Python daemon for each environment."""
        if not variables:
            return self._spark
        context = object.__new__(SparkContext)  # a second one, and a copy, are refused
        context.__dict__.update(self._spark.__dict__)
        context.environment = {**self._spark.environment, **variables}
        return context

    def _run(self, spark: SparkContext, spec: TaskSpec, key: tuple[TaskId, int, int], on_end: OnEnd) -> None:
        result: Outcome | Lost
        try:
            spark.setJobGroup(group_of(spec), f"{spec.task} attempt {spec.placement.attempt}")
            (answer,) = spark.parallelize([spec.dumps()], 1).map(_run_once).collect()
            value = json.loads(answer)
            result = Lost(value["lost"]) if "lost" in value else _outcome(value)
        except (PySparkException, Py4JError, OSError, ValueError) as error:
            result = _end_of(str(error).strip(), spec)
            if isinstance(result, Outcome):
                log.error("%s: %s", spec.task, result.trace)  # noqa: TRY400 - the task's stack, not this thread's
        finally:
            self._threads.pop(key, None)
        with about(spec.task.connector):
            on_end(spec, result)

    def end_tasks(self) -> None:
        """Ask the tasks on this machine to commit and end (their processes are the grandchildren of the JVM)."""
        for jvm in psutil.Process().children():
            for daemon in jvm.children():
                for task in daemon.children():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        task.terminate()

    def runs(self, spec: TaskSpec) -> bool:
        """Return whether the attempt's job still runs."""
        key = (spec.task, spec.placement.generation, spec.placement.attempt)
        return key in self._threads or group_of(spec) in self._ends

    def cancel(self, spec: TaskSpec) -> None:
        """Have Spark end the job. Its Python process may live for some more seconds, which fencing makes harmless.

        If the process is shared, the attempts beside it are lost with it, and placed again.
        """
        process = None if self._shared is None else self._shared.find(group_of(spec))
        if process is None:
            self._spark.cancelJobGroup(group_of(spec))
        else:
            self._alone.add(spec.task)
            process.cancel()

    def join(self, seconds: float) -> None:
        """Wait for the running jobs, at most `seconds` in all."""
        for thread in list(self._threads.values()):
            thread.join(seconds)
        if self._shared is not None:
            self._shared.join(seconds)

    def stop(self) -> None:
        """End the driver and its processes."""
        self._stopping = True
        self._spark.stop()

    def end_driver(self) -> None:
        """Stop, and wait for the end of the driver's JVM, which else ends with this process."""
        self.stop()
        end_driver(self._spark)


def _how_it_ended(code: int, memory: str) -> str:
    """Return why the driver has ended, with the remedy if it is known."""
    if code == OUT_OF_MEMORY:
        return f"The Spark driver ran out of memory ({DRIVER_MEMORY}={memory}; raise it among the worker's settings)"
    return "The Spark driver's JVM has ended"


def _not_secret(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if not secret_by_name(name)}


@contextlib.contextmanager
def _secret_file(settings: Mapping[str, str]) -> Iterator[str]:
    """Write Spark's secret settings to a file for the driver's start, and yield its path; "" for none. The other
    settings are passed on the command line.
    """
    secret = {name: value for name, value in settings.items() if secret_by_name(name)}
    if not secret:
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="ringfence-spark-") as folder:  # this user's alone
        path = Path(folder) / "secrets.properties"
        path.write_text("".join(f"{name}={_escape(value)}\n" for name, value in secret.items()))
        yield str(path)


def _escape(value: str) -> str:
    """Escape a value for java.util.Properties."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _forget_numpy() -> None:
    """Keep Py4J from checking whether each value for Java is NumPy's. The check loads PySpark's test utilities with
    pandas and NumPy: 45 MiB and half a second for each worker. We only pass strings and numbers."""
    INPUT_CONVERTER[:] = [
        one for one in INPUT_CONVERTER if not isinstance(one, NumpyScalarConverter | NumpyArrayConverter)
    ]


def group_of(spec: TaskSpec) -> str:
    """Return the Spark job group of an attempt."""
    return f"{spec.task}@{spec.placement.generation}.{spec.placement.attempt}"


def _run_once(text: str) -> str:
    from pyspark import TaskContext

    from ringfence.engine.spark.task_process import run_task

    context: Any = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        # Spark would start an attempt again after the loss of its executor, but only the leader places attempts.
        return json.dumps({"lost": "The executor that ran the attempt was lost"})
    return run_task(text)


def _run_shared(path: str) -> None:
    from ringfence.engine.spark.shared_process import run_shared_tasks

    run_shared_tasks(path)


def _nothing(value: int) -> int:
    return value


def _outcome(value: Mapping[str, Any]) -> Outcome:
    return Outcome(**{**value, "failure": failed_record.read(value.get("failure"))})


def _end_of(error: str, spec: TaskSpec) -> Outcome | Lost:
    """Return the outcome of a job that Spark has given up.

    A process that crashed (SIGSEGV, SIGABRT …) has failed, as after an error of its plugin: it would crash again. A
    process that was killed from outside is lost.
    """
    crash = find_crash(error)
    if crash is None:
        return Lost(_root_cause(error.splitlines()))
    trace = explain(f"The task's process crashed. {crash}", memory_limit(spec.worker_settings))
    return Outcome(FAILED, trace, left_open=True)


def _root_cause(lines: list[str]) -> str:
    messages = [
        line.strip() for line in lines if "crashed unexpectedly" in line or "Error" in line or "Exception" in line
    ]
    return (messages or lines or ["the job ended without an outcome"])[-1][:500]
