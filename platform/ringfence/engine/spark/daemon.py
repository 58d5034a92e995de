"""Spark's Python daemon: what tasks need is loaded once, before it forks, and shared by all of them.

PySpark is taken from where it is installed. Spark puts an archive of it first on the path, and Python compiles again,
in
each process, what it finds there. Measured: 0.5 s of CPU time until the daemon is up in place of 1.2 s, 0.1 s in place
of 0.4 s for each task's process, which starts with 46 MiB (PSS 29) in place of 62 (51).
"""

import faulthandler
import gc
import importlib
import os
import sys
from importlib.machinery import PathFinder

_ARCHIVES = ("pyspark.zip", "-src.zip", ".jar")
# PySpark itself loads its worker only after each fork, since pandas and pyarrow, if a job needs them, start threads.
# Our jobs need neither, and nothing here starts a thread.
_SHARED = (
    "pyspark.worker",
    "ringfence.connectors.plugins",
    "ringfence.engine.spark.driver",
    "ringfence.engine.spark.task_process",
)


def _prefer_installed() -> None:
    """Take Spark's archives off the path where Python finds PySpark without them."""
    installed = [entry for entry in sys.path if not entry.endswith(_ARCHIVES)]
    if all(PathFinder.find_spec(name, installed) for name in ("pyspark", "py4j")):
        sys.path[:] = installed
        for entry in [each for each in sys.path_importer_cache if each.endswith(_ARCHIVES)]:
            # PySpark invalidates Python's caches in every new process, and such an importer reads its archive's
            # whole directory again then, Spark's own jar among them: 14 MiB of each task.
            del sys.path_importer_cache[entry]


if __name__ == "__main__":
    _prefer_installed()
    faulthandler.enable()  # the daemon's own crashes; Spark sees to those of each task (`spark_settings`)
    for name in _SHARED:
        importlib.import_module(name)

    from ringfence.connectors import plugin_environments

    plugin_environments.enter(os.environ)
    gc.collect()
    gc.freeze()  # else the first collection writes to every object, and its page is shared no more
    # Records are made by the thousand and end with their last reference. Looking for cycles among them as often as
    # Python does by default costs a tenth of the records/s.
    gc.set_threshold(10_000, 10, 10)

    from pyspark import daemon

    daemon.manager()
