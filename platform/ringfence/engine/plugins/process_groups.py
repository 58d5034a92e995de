"""The plugin processes of each environment: no process loads the plugins of two environments.

Those of the worker's own environment live as long as the worker; those of a plugin environment while it is used.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ringfence.connectors.plugin_environments import PluginEnvironment
from ringfence.engine.plugins.call_server import ProcessCall
from ringfence.engine.plugins.errors import PluginError
from ringfence.engine.plugins.instance_supervisor import InstanceSupervisor
from ringfence.engine.plugins.process import ChildProcess
from ringfence.engine.plugins.process_pool import CallPool
from ringfence.requests.request import Answer

StartProcess = Callable[[Mapping[str, str]], ChildProcess]
StartInstanceProcess = Callable[[Mapping[str, str], Callable[[ChildProcess], None]], ChildProcess]

_PREVIEW_PROCESSES: Final = 2
_UNUSED_SECONDS: Final = 60.0


class ProcessGroup:
    """The processes of one environment."""

    def __init__(
        self,
        start: Callable[[], ChildProcess],
        start_for_instances: Callable[[Callable[[ChildProcess], None]], ChildProcess],
        on_failed: Callable[[str, PluginError], None],
        call_processes: int,
    ) -> None:
        self._calls = CallPool(start, call_processes)
        # Separate, so that no validation waits for a preview, and a preview leaves nothing of the plugin running.
        self._previews = CallPool(start, _PREVIEW_PROCESSES, warm=0)
        self.live = InstanceSupervisor(start_for_instances, on_failed)
        self.users = 0
        self.used_at = time.monotonic()

    def ask(self, call: ProcessCall[Answer], timeout: float, *, leave_nothing: bool = False) -> Answer:
        """Make a call. leave_nothing: whether the process ends afterwards."""
        pool = self._previews if leave_nothing or call.leaves_nothing else self._calls
        return pool.call(call, timeout)

    def close(self) -> None:
        """End all of its processes."""
        self.live.close()
        self._calls.close()
        self._previews.close()


class ProcessGroups:
    """One object per worker. Thread-safe."""

    def __init__(
        self,
        start: StartProcess,
        start_for_instances: StartInstanceProcess,
        on_failed: Callable[[str, PluginError], None],
        call_processes: int,
    ) -> None:
        """Both functions start a process with the given variables, in addition to those of all plugin processes."""
        self._start = start
        self._start_for_instances = start_for_instances
        self._on_failed = on_failed
        self._call_processes = call_processes
        self._lock = threading.Lock()
        self._own = self._make({})
        self._others: dict[PluginEnvironment, ProcessGroup] = {}
        self._homes: dict[str, ProcessGroup] = {}

    @contextmanager
    def use(self, environment: PluginEnvironment | None) -> Iterator[ProcessGroup]:
        """Return the group of an environment, None for the worker's own. It is not closed while it is used."""
        if environment is None:
            yield self._own
            return
        with self._lock:
            group = self._others.get(environment)
            if group is None:
                group = self._others[environment] = self._make(environment.as_variables())
            group.users += 1
        try:
            yield group
        finally:
            with self._lock:
                group.users -= 1
                group.used_at = time.monotonic()

    def settle(self, connector: str, group: ProcessGroup) -> ProcessGroup | None:
        """Move the connector's instance to this group. Returns its previous group if that was another one."""
        with self._lock:
            before = self._homes.get(connector)
            self._homes[connector] = group
        return before if before is not group else None

    def home_of(self, connector: str) -> ProcessGroup:
        """Return the group with the connector's instance."""
        with self._lock:
            return self._homes.get(connector, self._own)

    def running(self) -> list[str]:
        """Return the connectors with an instance, in any group."""
        return [name for group in self._all() for name in group.live.names()]

    def close_unused(self) -> None:
        """End the processes of plugin environments that have not been used for a while."""
        with self._lock:
            end = time.monotonic() - _UNUSED_SECONDS
            environments = [
                environment
                for environment, group in self._others.items()
                if not group.users and group.used_at < end and not group.live.names()
            ]
            groups = [self._others.pop(environment) for environment in environments]
            self._homes = {name: group for name, group in self._homes.items() if group not in groups}
        for group in groups:
            group.close()

    def close(self) -> None:
        """End all processes."""
        for group in self._all():
            group.close()

    def _all(self) -> list[ProcessGroup]:
        with self._lock:
            return [self._own, *self._others.values()]

    def _make(self, variables: Mapping[str, str]) -> ProcessGroup:
        return ProcessGroup(
            lambda: self._start(variables),
            lambda on_end: self._start_for_instances(variables, on_end),
            self._on_failed,
            self._call_processes,
        )
