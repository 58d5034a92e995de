"""The JVM that Spark's driver in this process leaves behind."""

import sys


def end_jvm() -> None:
    """End it, where there is one. It outlives its application, and has the environment that it was started in.

    Left alone it ends with this process, and Py4J writes so to a log that pytest has closed by then.
    """
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
