"""What Spark's Python daemon hands on to each task's process."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

_PROGRAM = """
import sys, zipimport
assert any(isinstance(each, zipimport.zipimporter) for each in sys.path_importer_cache.values()), "nothing to remove"
from ringfence.engine.spark.daemon import _prefer_installed
_prefer_installed()
print([path for path, each in sys.path_importer_cache.items() if isinstance(each, zipimport.zipimporter)])
print([path for path in sys.path if "spark" in path and path.endswith((".zip", ".jar"))])
"""


def test_no_archive_of_spark_is_read_again_in_each_process() -> None:
    """Its jar stands on Python's path, too. Reading its directory was half of a small task's memory."""
    home = Path(pyspark.__file__).parent
    archives = [*home.glob("jars/spark-core_*.jar"), *home.glob("python/lib/*.zip")]
    assert archives
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, archives))}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]", "[]"]
