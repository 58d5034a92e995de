"""The process of Spark's driver, a JVM that PySpark starts.

PySpark has no public way to it. All private parts of PySpark that we use are in this module; the highest minor version
is pinned, and `tests/engine/test_driver_process.py` is their canary.
"""

from typing import Any

from pyspark import SparkContext


def wait_for_end(spark: SparkContext) -> int:
    """Return the exit code of the driver's JVM, when it has ended; negative for the signal that killed it."""
    gateway: Any = spark._gateway
    code: int = gateway.proc.wait()
    return code


def end_driver(spark: SparkContext, seconds: float = 60.0) -> None:
    """Let the driver's JVM of a stopped context end in order, and wait for that; else it ends with this process.

    Raises subprocess.TimeoutExpired.
    """
    gateway: Any = spark._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(seconds)
