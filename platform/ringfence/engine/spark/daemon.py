"""Spark's Python daemon: it loads what tasks need once, before it forks, so that all of them share it.

It uses the installed PySpark. Spark puts an archive of it first on the path, and Python compiles the modules in that
archive again in each process. Measured: 0.5 s instead of 1.2 s of CPU time until the daemon is up, and 0.1 s instead of
0.4 s for each task's process, which starts with 46 MiB (PSS 29) instead of 62 (51).
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
    "encodings.idna",  # of each look-up of a host's name
    "pyspark.worker",
    "ringfence.connectors.plugins",
    "ringfence.engine.spark.driver",
    "ringfence.engine.spark.task_process",
)


def _prefer_installed() -> None:
    """Remove Spark's archives from the path if Python finds PySpark without them."""
    entries = [entry for entry in sys.path if not entry.endswith(_ARCHIVES)]
    if all(PathFinder.find_spec(name, entries) for name in ("pyspark", "py4j")):
        sys.path[:] = entries
        for entry in [each for each in sys.path_importer_cache if each.endswith(_ARCHIVES)]:
            # PySpark invalidates Python's caches in every new process. Then such an importer reads the whole directory
            # of its archive again, also of Spark's own jar: 14 MiB for each task.
            del sys.path_importer_cache[entry]


if __name__ == "__main__":
    _prefer_installed()
    faulthandler.enable()  # the daemon's own crashes; Spark sees to those of each task (`spark_settings`)
    gc.disable()  # until all is loaded: nothing of a module is garbage
    for name in _SHARED:
        importlib.import_module(name)

    from ringfence.connectors import plugin_environments
    from ringfence.fencing.kafka.client_pool import set_up_clients

    set_up_clients()
    plugin_environments.enter(os.environ)
    gc.collect()
    gc.freeze()  # otherwise the first collection writes to every object, which ends the sharing of its page
    gc.enable()
    # Thousands of records are created, and freed by reference counts. Searching them for cycles as often as Python
    # does by default takes a tenth of the records/s.
    gc.set_threshold(10_000, 10, 10)

    from pyspark import daemon

    daemon.manager()
