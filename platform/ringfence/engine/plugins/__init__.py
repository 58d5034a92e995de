"""Plugin code runs beside the worker, never in it: in processes that may hang or crash without harm.

`PluginHost` is the door. Two kinds of processes stand behind it:

- *call processes* answer one short call at a time (validate, key infos, alter_offsets). One that misses its deadline
  is killed; a few may work side by side, so that a hung plugin holds up nobody else.
- the *instance process* holds the connector instances that live on and may ask for new tasks. It is one process: at
  20 MB each, a hundred connectors would take gigabytes. Each connector has a thread of its own in it. An instance
  that hangs or crashes the process takes the others down for a moment: they are started again, the culprit is not.
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
