"""The plugin process: runs the code of plugins. Started by `process.ChildProcess`; the protocol is `call_server`'s."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ringfence.connectors import plugin_environments
from ringfence.connectors.api import ConnectorError
from ringfence.connectors.java import processes
from ringfence.connectors.java import runtime as java_runtime
from ringfence.connectors.java.discovery import find_signature
from ringfence.connectors.plugins import PluginRegistry
from ringfence.engine.plugins.call_server import Emit, Message, serve
from ringfence.engine.plugins.calls import PluginRuntime, parse


class PluginCalls:
    """The calls of a plugin process."""

    subject: Final = "The connector's"

    def __init__(self, emit: Emit) -> None:
        environment = plugin_environments.find_entered(os.environ)
        self._registry = (
            PluginRegistry.discover() if environment is None else PluginRegistry.of_environment(environment)
        )
        self._runtime = PluginRuntime(self._registry, emit)

    def answer(self, name: str, args: Message) -> object:
        call = parse(name, args)
        self._registry.follow_plugin_path()  # plugins may have been added since
        return call.answer(self._runtime)

    def keeps(self, lane: str) -> bool:
        return lane == "call" or self._runtime.instances.has(lane)

    def redactor(self, args: Message) -> Callable[[str], str]:
        return self._runtime.redactor(args)


def _prepare() -> None:
    java = java_runtime.current()
    if java is not None and find_signature(java.folders):
        with suppress(ConnectorError):  # jars that are still fetched: the call that needs them says so
            processes.get()  # starts beside the first call, not in it
    plugin_environments.enter(os.environ)


if __name__ == "__main__":
    serve(PluginCalls, _prepare)
