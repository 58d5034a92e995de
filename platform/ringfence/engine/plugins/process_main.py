"""The plugin process: reads requests, runs plugin code, writes answers. Started by `process.ChildProcess`.

Protocol: one JSON object per line, over two separate pipes, so that a plugin may print anything.

- Request: `{"id", "op", "lane", "args", "offsets_topics"}`; `op` and `args` are one of `requests.plugin_calls`.
- Answer: `{"id", "result"}` or `{"id", "error": {"kind", "message", "trace"}}`.
- Events: `{"event": "reconfigure", "connector"}`, `{"event": "failed", "connector", "trace"}` and `{"event": "warning",
  "connector", "text"}`.

Requests of one lane run one after another, on one thread. A third descriptor is a file for the stacks of a crash.

The process ends with its host, as soon as the request pipe ends. If a plugin holds the interpreter for so long that
this is not noticed, a watchdog outside the interpreter ends the process.
"""

import faulthandler
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping

from ringfence.connectors import plugin_environments, worker_limits
from ringfence.connectors.java import connector_process
from ringfence.connectors.java import runtime as java_runtime
from ringfence.connectors.plugins import PluginRegistry
from ringfence.engine.plugins.errors import PluginError, to_wire
from ringfence.engine.plugins.operations import Operations
from ringfence.requests.plugin_calls import parse

WATCHDOG_SECONDS = 30.0
HEARTBEAT_SECONDS = 5.0


class Child:
    """Serves requests until the pipe ends."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._writing = threading.Lock()
        self._lanes: dict[str, queue.SimpleQueue[dict[str, object]]] = {}
        environment = plugin_environments.find_entered(os.environ)
        self._registry = (
            PluginRegistry.discover() if environment is None else PluginRegistry.of_environment(environment)
        )
        self._operations = Operations(self._registry, self.write)

    def serve(self) -> None:
        with open(self._requests, encoding="utf-8") as lines:
            for line in lines:
                request: dict[str, object] = json.loads(line)
                worker_limits.set_offsets_topics(request["offsets_topics"])  # type: ignore[arg-type]
                lane = str(request["lane"])
                if lane not in self._lanes:
                    self._lanes[lane] = queue.SimpleQueue()
                    threading.Thread(target=self._work, args=(self._lanes[lane],), name=lane, daemon=True).start()
                self._lanes[lane].put(request)

    def write(self, message: Mapping[str, object]) -> None:
        """Send one message as a line. Any thread may call it."""
        data = json.dumps(message).encode() + b"\n"
        with self._writing:
            while data:
                data = data[os.write(self._answers, data) :]

    def _work(self, requests: "queue.SimpleQueue[dict[str, object]]") -> None:
        while True:
            request = requests.get()
            name, args = str(request["op"]), request["args"]
            assert isinstance(args, dict)
            try:
                call = parse(name, args)
                operation: Callable[..., object] = getattr(self._operations, call.name)
                self._registry.follow_plugin_path()  # plugins may have been added since
                answer = {"id": request["id"], "result": operation(**vars(call))}
                json.dumps(answer)
            except BaseException as error:  # noqa: BLE001 - the root of the thread: the error is the call's answer
                answer = {"id": request["id"], "error": self._describe(error, name, args)}
            self.write(answer)

    def _describe(self, error: BaseException, op: str, args: Mapping[str, object]) -> dict[str, object]:
        redact = self._operations.redactor(args)
        if isinstance(error, PluginError):
            body = to_wire(error)
            body["message"] = redact(error.message)
            return body
        if isinstance(error, SystemExit):
            message = f"The connector called sys.exit in {op}, which ends only this call."
        else:
            message = f"The connector's {op} failed: {type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error))
        return to_wire(PluginError(redact(message), redact(trace)))


def _heartbeat(crash: int) -> None:
    while True:
        faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True, file=crash)
        time.sleep(HEARTBEAT_SECONDS)


def main() -> None:
    requests, answers, crash = (int(each) for each in sys.argv[1:4])
    faulthandler.enable(file=crash)  # the host reads it and logs it
    for fd in (requests, answers, crash):
        os.set_inheritable(fd, False)  # child processes of a plugin must not keep the pipes open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the host decides
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s plugin %(threadName)s %(name)s: %(message)s"
    )
    threading.Thread(target=_heartbeat, args=(crash,), name="watchdog", daemon=True).start()
    if java_runtime.current() is not None:
        connector_process.get()  # starts beside the first call, not in it
    plugin_environments.enter(os.environ)
    child = Child(requests, answers)
    child.write({"event": "ready"})
    child.serve()
    os._exit(0)  # plugin threads may hang: do not wait for them


if __name__ == "__main__":
    main()
