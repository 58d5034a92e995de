"""The Spark settings for tasks: this machine's cores by default, or a cluster by the worker's `spark.*` settings."""

import math
import sys
from collections.abc import Mapping
from typing import Final

from ringfence.connectors.process_tree import MARK

MASTER: Final = "spark.master"
AUTHENTICATE: Final = "spark.authenticate"
DRIVER_MEMORY: Final = "spark.driver.memory"
DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
SECRET: Final = "spark.authenticate.secret"  # noqa: S105 - a name
_PREFIX: Final = "spark."
_DRIVER_MIB: Final = 512
"""The driver's heap: enough for a hundred tasks (benchmarks/results/many.md)."""
_FEW_SLOTS: Final = 128
_JOB_MIB: Final = 2
"""More heap for each slot above."""

_DEFAULTS: Final = {
    "spark.app.name": "ringfence",
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",  # only if the user turns it on
    # Without these, anyone who can reach a driver or master could run programs there. Spark generates the secret if it
    # can.
    AUTHENTICATE: "true",
    "spark.network.crypto.enabled": "true",
    "spark.log.level": "ERROR",
    # By default as many as cores, and a local master has two for each slot: threads that nobody needs.
    "spark.rpc.netty.dispatcher.numThreads": "4",
    # A heap that begins small and stays close to what is in use: by default it begins with a 64th of the machine.
    DRIVER_OPTIONS: (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -Xms32m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=25"
    ),
    # A task has a dozen threads, mostly librdkafka's; an arena for each would waste memory.
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    # A process that dies of a signal reports its stacks, from which `spark_host` makes the task's failure.
    "spark.python.worker.faulthandler.enabled": "true",
    # On a TCP port, PySpark's daemon forks for everyone on the machine who connects, before it asks for its secret.
    "spark.python.unix.domain.socket.enabled": "true",
}
# A JVM that runs out of memory loses one of its threads and continues without it: no job starts any more, unnoticed.
# With this option it exits with this code instead, and the worker restarts.
_EXIT_WITHOUT_MEMORY: Final = "-XX:+ExitOnOutOfMemoryError"
OUT_OF_MEMORY: Final = 3

_ON_THIS_MACHINE: Final = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_ON_A_CLUSTER: Final = {
    # Few tasks per executor: they spread, and the loss of an executor affects only a few.
    "spark.executor.cores": "2",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONUNBUFFERED": "1",
    f"spark.executorEnv.{MARK}": "0",  # no process: there, only what inherits the mark is the platform's
    "spark.deploy.spreadOut": "true",
    # Otherwise, an application that runs for months is ended after a few lost executors (Kubernetes, YARN).
    "spark.executor.failuresValidityInterval": "1h",
}

FIXED: Final = {
    "spark.python.daemon.module": "ringfence.engine.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.task.maxFailures": "1",
    "spark.task.cpus": "1",
    "spark.speculation": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Fixed: the leader places attempts, and Spark runs each of them once."""


def spark_settings(worker: Mapping[str, str], slots: int) -> dict[str, str]:
    """Return settings for a SparkConf. Raises ValueError with the reason for an unusable setting."""
    own = {name: value.strip() for name, value in worker.items() if name.startswith(_PREFIX)}
    options = own.get(DRIVER_OPTIONS, _DEFAULTS[DRIVER_OPTIONS])
    if _EXIT_WITHOUT_MEMORY.partition("+")[2] not in options:  # otherwise the user has chosen the action
        own[DRIVER_OPTIONS] = f"{options} {_EXIT_WITHOUT_MEMORY}".strip()
    for name, value in FIXED.items():
        if own.get(name, value) != value:
            raise ValueError(f"{name}={own[name]} cannot be used: it is {value}, since every attempt runs once only")
    # Old attempts may still occupy a core each while new ones start, so there are twice as many.
    cores = slots * 2 + 2
    own.setdefault(DRIVER_MEMORY, f"{max(_DRIVER_MIB, _DRIVER_MIB + _JOB_MIB * (slots - _FEW_SLOTS))}m")
    master = own.get(MASTER) or f"local[{cores}]"
    if master.startswith("local"):
        return {**_DEFAULTS, **_ON_THIS_MACHINE, **own, **FIXED, MASTER: master}
    if own.get(AUTHENTICATE) == "false":
        own = {"spark.network.crypto.enabled": "false", **own}
    elif master.startswith("spark://") and not own.get(SECRET):
        raise ValueError(
            f"{MASTER}={master} needs {SECRET}: the secret that its master and workers have (_SPARK_AUTH_SECRET, "
            f"beside -D{AUTHENTICATE}=true), or {AUTHENTICATE}=false if no one else can reach them"
        )
    there = {**_ON_A_CLUSTER, "spark.pyspark.python": sys.executable, **own}
    return {**_DEFAULTS, **_share(master, cores, there["spark.executor.cores"]), **there, **FIXED, MASTER: master}


def _share(master: str, cores: int, of_each: str) -> dict[str, str]:
    """Return the share of a cluster that one worker takes. By Spark's defaults the first worker would take all of a
    standalone cluster, so that a second one would wait forever; and on Kubernetes and YARN each would have two
    executors, however many tasks it runs. of_each: an executor's cores. Raises ValueError.
    """
    if not of_each.isdecimal() or int(of_each) < 1:
        raise ValueError(f"spark.executor.cores={of_each} cannot be used: an integer of at least 1 is expected")
    if master.startswith("spark://"):
        return {"spark.cores.max": str(math.ceil(cores / int(of_each)) * int(of_each))}
    return {"spark.executor.instances": str(math.ceil(cores / int(of_each)))}


def is_local(settings: Mapping[str, str]) -> bool:
    """Return whether the tasks' processes are this worker's own."""
    return settings[MASTER].startswith("local")
