"""Plugin code runs beside the worker, never in it: in processes that may hang or crash without harm.

`PluginHost` is the only entry point. It uses two kinds of processes:

- *call processes* answer one short call at a time (validate, key infos, alter_offsets). A process that misses its
  deadline is killed. Several may work concurrently, so a hung plugin delays no other.
- the *instance process* contains the connector instances, which keep running and may request new tasks. It is one
  process: at 20 MB each, a hundred connectors would take gigabytes. Each connector has its own thread in it. An
  instance that hangs or crashes the process interrupts the others: they are started again, but the culprit is not.
"""

from ringfence.engine.plugins.errors import (
    BadRequest,
    OffsetsRefused,
    PluginCrash,
    PluginError,
    PluginTimeout,
    UnknownPlugin,
)
from ringfence.engine.plugins.host import PluginHost

__all__ = [
    "BadRequest",
    "OffsetsRefused",
    "PluginCrash",
    "PluginError",
    "PluginHost",
    "PluginTimeout",
    "UnknownPlugin",
]
