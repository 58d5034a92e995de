"""A canary for the private parts of PySpark that `engine.spark.driver` uses: a real driver."""

import subprocess
import sys

import pytest

PROGRAM = """
import psutil
from concurrent.futures import ThreadPoolExecutor
from pyspark import SparkContext
from ringfence.engine.spark.driver import wait_for_end

spark = SparkContext("local[1]", "canary")
(jvm,) = psutil.Process().children()
with ThreadPoolExecutor(1) as pool:
    code = pool.submit(wait_for_end, spark)
    assert not code.done()
    jvm.kill()
    assert code.result(30) == -9, code
print("ended")
"""


@pytest.mark.thorough
def test_pyspark_still_has_what_is_used_of_its_private_parts() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "ended", done.stderr[-2000:]
