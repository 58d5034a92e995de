"""The reader process: decodes, filters and shows records. `readers.Readers` starts it; `call_server` has its protocol.

What is decoded was written by anybody, with schemas of anybody's registry. So this process has no login for Kafka and
no settings of the platform but the limits for outgoing connections, it may use only so much memory, and it is killed if
it is late.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from ringfence.connectors.api import ConfigException
from ringfence.connectors.converters.registry.settings import load
from ringfence.engine.browsing.reader_calls import ReaderState, parse
from ringfence.engine.plugins.call_server import serve
from ringfence.engine.plugins.secret_removal import Scrubber


class ReaderCalls:
    """The calls of a reader process. One host uses it at a time."""

    subject: Final = "The reader's"

    def __init__(self, _emit: object) -> None:
        self._state = ReaderState()

    def answer(self, name: str, args: Mapping[str, object]) -> object:
        return parse(name, args).answer(self._state)

    def keeps(self, _lane: str) -> bool:
        return True

    def redactor(self, args: Mapping[str, object]) -> Callable[[str], str]:
        """Return a function that drops everything: what is decoded is not for logs and errors."""
        secrets = args.get("secrets")
        if self._state.reading is not None:
            secrets = self._state.reading.call.secrets
        return Scrubber(cast("Sequence[str]", secrets) if isinstance(secrets, list | tuple) else ()).text


def _load_ahead() -> None:
    """Load what a record with a schema needs, beside the first call: most pages do not need it."""
    threading.Thread(target=_load, name="load", daemon=True).start()


def _load() -> None:
    for module in ("confluent_kafka.schema_registry", "fastavro"):
        with contextlib.suppress(ConfigException):  # without the extra, the first record's answer says so
            load(module)


if __name__ == "__main__":
    serve(ReaderCalls, _load_ahead)
