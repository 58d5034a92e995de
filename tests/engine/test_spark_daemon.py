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


_CLIENT = """
import os, sys
from pathlib import Path
from confluent_kafka import Producer
from ringfence.fencing.kafka.client_pool import set_up_clients

def private_kib():
    rows = (line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return sum(int(row[1]) for row in rows if row[0] in ("Private_Clean:", "Private_Dirty:"))

if sys.argv[1] == "loaded":
    set_up_clients()
print(len(os.listdir("/proc/self/task")), flush=True)
if os.fork() == 0:
    before = private_kib()
    producer = Producer({"bootstrap.servers": "", "log_level": 0})
    print(private_kib() - before, flush=True)
    os._exit(0)
os.wait()
"""


def test_a_tasks_first_client_finds_its_libraries_set_up() -> None:
    """Each of hundreds of tasks would otherwise set up librdkafka and OpenSSL in pages of its own."""
    taken = {}
    for how in ("loaded", "not"):
        done = subprocess.run(
            [sys.executable, "-c", _CLIENT, how], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        threads, taken[how] = map(int, done.stdout.split())
        assert threads == 1, "a fork would miss the others"
    assert taken["loaded"] < taken["not"] / 2
