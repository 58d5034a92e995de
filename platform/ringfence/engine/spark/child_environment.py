"""Removes the platform's settings from the environment of Spark and of processes that run plugin code.

These settings contain the passwords of the database, Redis and Kafka. A process inherits its parent's environment, so a
worker removes them after it has read them, and passes on by name what plugin code needs.
"""

from collections.abc import Mapping, MutableMapping
from typing import Final

from ringfence.connectors.config_providers import PROVIDERS
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk.worker_limits import ENVIRONMENT
from ringfence.log_format import VARIABLE as LOG_FORMAT

_OURS: Final = ("RINGFENCE_", "CONNECT_")
_OF_EXPORTERS: Final = ("OTEL_EXPORTER_",)
"""Where traces and metrics go, with the headers and keys that let us in there."""
_HANDED_ON: Final = frozenset({PROVIDERS, ENVIRONMENT, MARK, LOG_FORMAT})
_THREAD_COUNTS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
_HARMLESS: Final = (
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    MARK,
    LOG_FORMAT,
)
_HARMLESS_PREFIXES: Final = ("LC_", "PYTHON")


def is_ours(name: str) -> bool:
    """Return whether the variable configures the platform, so that plugins must not see it."""
    return name.startswith((*_OURS, *_OF_EXPORTERS)) and name not in _HANDED_ON


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not is_ours(name)}


def let_go(environment: MutableMapping[str, str]) -> None:
    """Remove them from this process's environment, so that processes which it starts later do not inherit them."""
    for name in [name for name in environment if is_ours(name)]:
        del environment[name]


def only_harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what any Python process needs, for one that decodes foreign bytes: nothing that could be a secret."""
    return {
        name: value for name, value in environment.items() if name in _HARMLESS or name.startswith(_HARMLESS_PREFIXES)
    }


def few_threads(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep libraries from starting a thread for each core, unless they are set already.

    The stacks of those threads count as memory, so a limit would depend on the machine.
    """
    return {name: "2" for name in _THREAD_COUNTS if name not in environment}
