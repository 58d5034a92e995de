"""`ringfence executor`: one Spark executor, as Spark on Kubernetes starts it.

Spark starts the image with the single argument `executor`, and passes its parameters in `SPARK_*` variables. Spark's
own image has a script for that; with this command, our image works as an executor, too, as on a standalone cluster.
"""

import argparse
import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ringfence.local.errors import LocalError
from ringfence.local.java import find_java

_MAIN: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTIONS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: all parameters are in the environment."""


def run(args: argparse.Namespace) -> int:
    """Become the executor's JVM. Raises `LocalError` outside an executor's pod."""
    home = spark_home()
    command = command_of(os.environ, find_java(), home)
    os.execve(command[0], command, {**os.environ, "SPARK_HOME": str(home)})  # noqa: S606 - no shell is wanted


def spark_home() -> Path:
    """Return PySpark's folder, which contains all of Spark that an executor needs."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def command_of(env: Mapping[str, str], java: Path, home: Path) -> list[str]:
    """Return the JVM's command line for Spark's variables in the environment."""
    missing = [name for name in (*_OPTIONS.values(), _MEMORY) if not env.get(name)]
    if missing:
        raise LocalError(f"Spark on Kubernetes runs this in an executor's pod, where {missing[0]} is set. Run a worker")
    numbered = sorted((int(match[1]), name) for name in env if (match := _JAVA_OPTION.fullmatch(name)))
    places = (env.get("SPARK_CONF_DIR"), env.get("SPARK_CLASSPATH"), f"{home}/jars/*")
    return [
        str(java),
        *(env[name] for _, name in numbered),
        f"-Xms{env[_MEMORY]}",
        f"-Xmx{env[_MEMORY]}",
        "-cp",
        os.pathsep.join(place for place in places if place),
        _MAIN,
        *(word for option, name in _OPTIONS.items() for word in (option, env[name])),
    ]
