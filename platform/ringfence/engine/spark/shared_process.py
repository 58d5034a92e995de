"""One Python process that runs the attempts of many small tasks, each on a thread (`task.isolation=shared`).

A process of its own costs a task about 20 MiB, since Python writes to the pages of whatever it uses, which ends their
sharing. A thread costs a tenth. Its price: a plugin that crashes, or takes all memory, ends the tasks beside it, too.
They are placed again; those that ran when a process crashed run in a process of their own from then on, where the next
crash has a culprit.

The process is a job of Spark that ends with the worker. The worker sends it attempts, and gets their outcomes, through
a Unix socket in a folder of its own: one JSON object a line. This module has both sides.
"""

import contextvars
import json
import logging
import os
import queue
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from ringfence import log_format
from ringfence.connectors.plugins import load_task_class
from ringfence.engine.spark.task_process import create_reporter, declare_worker, run_spec, write_outcome
from ringfence.fencing.kafka.client_pool import Login, login_of
from ringfence.fencing.request_context import working_for
from ringfence.fencing.task.joint_reads import JointReads
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.connector_logs import SharedLogs, about, redact_for_task
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.topic_ids import Topics
from ringfence.memory_limit import change_memory_limit, keep_memory_limit, memory_limit

log = logging.getLogger(__name__)

MOST_TASKS: Final = 50
"""In one process. What it costs to lose it grows with them, and only one of them runs Python at a time."""
_FEW_TASKS: Final = 8
"""So many are in one process before the next one starts, up to a process for each core."""
_OURS: Final = ("ringfence.connectors.builtin.", "connectors.builtin.")
_STACK_BYTES: Final = 1 << 20
_TASK_BYTES: Final = 128 << 20
"""What the memory limit leaves to a task for the stacks of its clients' threads, which are reserved, hardly used."""
_LAST_SECONDS: Final = 5.0

OUTCOME: Final = "outcome"
"""What became of an attempt: the fields of an `Outcome`; `None` for one that must run in a process of its own."""
OnOutcome = Callable[[TaskSpec, Mapping[str, Any] | None], None]
OnLost = Callable[[TaskSpec, str], None]


def may_share(spec: TaskSpec) -> bool:
    """Return whether the attempt is one of Ringfence's own connectors. Its class, which the shared process loads, has
    the last word; the code of others is never loaded there.
    """
    return spec.task_class.startswith(_OURS)


class SharedProcess:
    """The worker's side of one process."""

    def __init__(
        self,
        run_job: Callable[[str], object],
        cancel: Callable[[], object],
        on_outcome: OnOutcome,
        on_lost: OnLost,
    ) -> None:
        """run_job(path): runs `run_shared_tasks` in a process until it ends; raises for a crash. cancel: ends that
        process, whatever it does. on_outcome, on_lost: called for each attempt once, on a thread of this object's.
        """
        self.cancel = cancel
        self._folder = tempfile.TemporaryDirectory(prefix="ringfence-tasks-")  # this user's alone
        self._path = str(Path(self._folder.name) / "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(1)
        self._run_job = run_job
        self._on_outcome = on_outcome
        self._on_lost = on_lost
        self._attempts: dict[str, TaskSpec] = {}
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        """To send, by a thread of its own: a process that is frozen must not hold up the launcher. An empty one is the
        last.
        """
        self._lock = threading.Lock()
        self.has_ended = False
        self._reader = threading.Thread(target=self._read, name="shared-tasks", daemon=True)
        self._job = threading.Thread(target=self._run, name="shared-process", daemon=True)
        self._reader.start()
        self._job.start()

    def __len__(self) -> int:
        return len(self._attempts)

    def has(self, key: str) -> bool:
        return key in self._attempts

    def submit(self, key: str, spec: TaskSpec) -> bool:
        """Start an attempt. False if the process has ended."""
        line = json.dumps({"key": key, "spec": spec.dumps()}).encode() + b"\n"
        with self._lock:
            if self.has_ended:
                return False
            self._attempts[key] = spec
        self._lines.put(line)
        return True

    def join(self, seconds: float) -> None:
        self._job.join(seconds)

    def _run(self) -> None:
        reason = "its process has ended"
        try:
            self._run_job(self._path)
        except Exception as error:  # noqa: BLE001 - the root of the thread: whatever it was, the attempts are lost
            reason = str(error).strip() or type(error).__name__
        with self._lock:
            self.has_ended = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes a reader that nobody has connected to
        self._lines.put(b"")
        self._reader.join()
        self._listener.close()
        self._folder.cleanup()
        lost, self._attempts = self._attempts, {}
        for spec in lost.values():
            self._on_lost(spec, reason)

    def _read(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        writer = threading.Thread(target=self._write, args=(connection,), name="shared-tasks-writer", daemon=True)
        writer.start()
        with connection:
            with suppress(OSError), connection.makefile("rb") as lines:
                for line in lines:
                    message = json.loads(line)
                    spec = self._attempts.pop(message["key"], None)
                    if spec is not None:
                        self._tell(spec, message[OUTCOME])
            writer.join()

    def _write(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the process has ended, which `_run` reports
            while line := self._lines.get():
                connection.sendall(line)

    def _tell(self, spec: TaskSpec, outcome: Mapping[str, Any] | None) -> None:
        try:
            self._on_outcome(spec, outcome)
        except Exception:
            # The other attempts' outcomes come by this thread, too.
            log.exception("The end of %s, attempt %d is not noted", spec.task, spec.placement.attempt)


class SharedProcesses:
    """The worker's shared processes."""

    def __init__(self, start: Callable[[], SharedProcess], cores: int | None = None) -> None:
        self._start = start
        self._cores = cores or os.cpu_count() or 1
        self._processes: list[SharedProcess] = []
        self._lock = threading.Lock()

    def submit(self, key: str, spec: TaskSpec) -> None:
        """Start an attempt where the fewest run."""
        with self._lock:
            self._processes = [each for each in self._processes if not each.has_ended]
            while not self._choose().submit(key, spec):
                self._processes = [each for each in self._processes if not each.has_ended]

    def _choose(self) -> SharedProcess:
        emptiest = min(self._processes, key=len, default=None)
        most = MOST_TASKS if len(self._processes) >= self._cores else _FEW_TASKS
        if emptiest is None or len(emptiest) >= most:
            emptiest = self._start()
            self._processes.append(emptiest)
        return emptiest

    def find(self, key: str) -> SharedProcess | None:
        """Return the process that runs the attempt."""
        return next((each for each in self._processes if each.has(key)), None)

    def join(self, seconds: float) -> None:
        for each in self._processes:
            each.join(seconds)


def run_shared_tasks(path: str) -> None:
    """Run the attempts that come through the socket until it ends, or until SIGTERM; commit and end them then."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tasks = _Tasks(connection)
        if threading.current_thread() is threading.main_thread():
            # The end of the stream, which wakes the loop below.
            signal.signal(signal.SIGTERM, lambda _signal, _frame: connection.shutdown(socket.SHUT_RD))
        with connection.makefile("rb") as lines:
            tasks.run(lines)


class _Tasks:
    """The process's side."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._reporter: Reporter | None = None
        self._memory: int | None = None
        """The limit, in bytes; None for none."""
        self._logs = SharedLogs()
        self._joint: dict[tuple[Login, Topics], JointReads] = {}
        self._opening = threading.Lock()
        self._runs: dict[str, SourceTaskRun] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._is_ending = False

    def run(self, lines: BinaryIO) -> None:
        inherit_contexts()
        threading.stack_size(_STACK_BYTES)
        try:
            for line in lines:
                message = json.loads(line)
                self._start(message["key"], TaskSpec.loads(message["spec"]))
        except OSError:
            log.info("The worker's end of the socket is gone")
        finally:
            self._end()

    def _start(self, key: str, spec: TaskSpec) -> None:
        if self._reporter is None:
            self._prepare(spec)
        if self._memory is not None:
            change_memory_limit(_TASK_BYTES)
        thread = threading.Thread(target=self._run_one, args=(key, spec), name=f"task-{spec.task}", daemon=True)
        self._threads[key] = thread
        thread.start()

    def _prepare(self, first: TaskSpec) -> None:
        """Set up what all attempts share."""
        declare_worker(first)
        self._memory = memory_limit(first.worker_settings)
        if self._memory is not None:
            keep_memory_limit(self._memory)
        self._reporter = create_reporter(first, f"shared-{os.getpid()}")
        log_format.describe_process(process="tasks", worker=first.placement.worker)
        log_format.write_to_stderr(logging.WARNING, redact=redact_for_task)
        self._logs.install()

    def _run_one(self, key: str, spec: TaskSpec) -> None:
        assert self._reporter is not None
        outcome: dict[str, object] | None = None
        try:
            if load_task_class(spec.task_class).shares_process:
                on_run = partial(self._note, key)
                with working_for(spec.request), about(spec.task.connector):
                    joint = self._open_joint_reads(spec)
                    result = run_spec(spec, self._reporter, shared_logs=self._logs, joint=joint, on_run=on_run)
                    outcome = write_outcome(result, self._memory)
        except Exception:
            # What `run_spec` raises before the attempt begins. Alone, it is reported as for any other attempt.
            log.exception("Task %s cannot start in a shared process", spec.task)
        finally:
            self._runs.pop(key, None)
            self._threads.pop(key, None)
            self._send(key, outcome)
            if self._memory is not None:
                change_memory_limit(-_TASK_BYTES)

    def _open_joint_reads(self, spec: TaskSpec) -> JointReads:
        """Return what the attempts read together. The thread that follows the config topic belongs to none of them."""
        key = login_of(spec.connection), spec.topics
        with self._opening:
            joint = self._joint.get(key)
            if joint is None or joint.follower.is_over:
                joint = self._joint[key] = JointReads(spec.connection, spec.topics)
                contextvars.Context().run(joint.follower.start)
            return joint

    def _note(self, key: str, run: SourceTaskRun) -> None:
        self._runs[key] = run
        if self._is_ending:
            run.end()

    def _send(self, key: str, outcome: Mapping[str, object] | None) -> None:
        with self._sending, suppress(OSError):  # the worker is gone: it needs no outcome
            self._connection.sendall(json.dumps({"key": key, OUTCOME: outcome}).encode() + b"\n")

    def _end(self) -> None:
        self._is_ending = True
        for run in list(self._runs.values()):
            run.end()
        for thread in list(self._threads.values()):
            thread.join()
        for joint in self._joint.values():
            joint.follower.close()
        if self._reporter is not None:
            self._reporter.flush(_LAST_SECONDS)
            self._reporter.close()


def inherit_contexts() -> None:
    """Let each thread that is started from now on begin with the context of the one that starts it: what it logs then
    belongs to the same task. Python does so by itself from 3.14 on, if told to.
    """
    start = threading.Thread.start

    def start_in_context(self: threading.Thread) -> None:
        context, run = contextvars.copy_context(), self.run
        self.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = start_in_context  # type: ignore[method-assign]
