"""What the processes beside a worker load: they start often, and each module costs CPU time and memory."""

import subprocess
import sys

import pytest

KAFKA = ("confluent_kafka", "kafka")
PLATFORM = ("celery", "django", "kombu", "pyspark", "redis")
SCRIPT = "import importlib, sys; importlib.import_module(sys.argv[1]); print(*sys.modules.keys() & sys.argv[2:])"


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("ringfence.engine.plugins.process_main", (*PLATFORM, *KAFKA)),
        ("ringfence.engine.browsing.reader_main", (*PLATFORM, *KAFKA)),
        ("ringfence.engine.spark.task_process", PLATFORM),
        ("ringfence.testing.attempt_process", (*PLATFORM, "ringfence.testing.checks")),
    ],
)
def test_a_process_loads_no_client_of_the_platform(module: str, heavy: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, module, *heavy], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
