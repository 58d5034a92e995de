"""A Spark driver that runs out of memory ends, so that its worker starts again, and says why."""

import subprocess
import sys

import pytest

from ringfence.spark_settings import spark_settings

pytestmark = pytest.mark.timeout(180)

_PROGRAM = """
import logging, sys, threading
logging.basicConfig(level="INFO")
from py4j.protocol import Py4JError
from ringfence.engine.spark.driver import SparkHost

host = SparkHost(1)
host.warm()
died = threading.Event()
host.watch(died.set)
try:
    host._spark._gateway.new_array(host._spark._jvm.long, 100_000_000)  # 800 MB
except (Py4JError, OSError):
    pass
sys.exit(0 if died.wait(30) else 7)
"""


@pytest.mark.slow
def test_it_ends_and_names_the_setting() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ran out of memory (spark.driver.memory=512m; raise it" in done.stderr


def test_other_options_of_the_driver_keep_it_and_another_wish_is_respected() -> None:
    assert spark_settings({}, 1)["spark.driver.extraJavaOptions"].endswith("-XX:+ExitOnOutOfMemoryError")
    own = spark_settings({"spark.driver.extraJavaOptions": "-Xss1m"}, 1)["spark.driver.extraJavaOptions"]
    assert own == "-Xss1m -XX:+ExitOnOutOfMemoryError"
    unwanted = {"spark.driver.extraJavaOptions": "-XX:-ExitOnOutOfMemoryError"}
    assert spark_settings(unwanted, 1)["spark.driver.extraJavaOptions"] == "-XX:-ExitOnOutOfMemoryError"
