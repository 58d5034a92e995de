"""The machine and the versions, for the table at the end of a page."""

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import psutil

from ringfence.local.jars import KAFKA_VERSION
from ringfence.local.java import find_java


def describe() -> dict[str, str]:
    """Return names and values, in the order of the table."""
    return {
        "processor": f"{os.cpu_count()} x {_processor()}, shared by the broker, the worker and the measuring",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Kafka and Kafka Connect": KAFKA_VERSION,
        "Java": _java(),
        "Python": platform.python_version(),
        "confluent-kafka, librdkafka": f"{version('confluent-kafka')}, {confluent_kafka.libversion()[0]}",
        "PySpark": version("pyspark"),
    }


def foot(machine: Mapping[str, str]) -> str:
    """Return the table of names and values that ends each page."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in machine.items())
    return f"| | |\n|---|---|\n{rows}\n"


def load() -> str:
    """Return the load averages of this machine, as a value for the table."""
    return ", ".join(f"{value:.1f}" for value in os.getloadavg())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")


def _java() -> str:
    answer = subprocess.run([str(find_java()), "-version"], capture_output=True, text=True, check=True)
    return answer.stderr.splitlines()[0].replace('"', "")
