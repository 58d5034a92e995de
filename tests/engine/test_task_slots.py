"""How many tasks a worker takes by default: by its memory, the limits of its control groups, and its settings."""

from pathlib import Path

import pytest

from ringfence.connectors.api import ConfigException
from ringfence.spark_settings import DRIVER_MEMORY, spark_settings
from ringfence.task_slots import (
    ON_A_CLUSTER,
    SPARE_BYTES,
    TASK_BYTES,
    TASK_SLOTS,
    find_shortage,
    free_memory,
    slots_of,
    usable_memory,
)

GIB = 1 << 30


def test_a_usual_machine_takes_hundreds_of_tasks() -> None:
    assert slots_of({}, 24 * GIB, workers_here=1) > 300
    assert slots_of({}, 16 * GIB) > 200


def test_the_tasks_of_all_workers_fit_into_the_memory() -> None:
    for memory in (4 * GIB, 8 * GIB, 32 * GIB):
        for workers in (1, 2, 3):
            assert workers * slots_of({}, memory, workers) * TASK_BYTES < memory - GIB


def test_a_small_machine_takes_a_few_and_a_large_one_no_end_of_them() -> None:
    assert slots_of({}, GIB // 2) == 4
    assert slots_of({}, 4096 * GIB) == 1000


def test_a_setting_comes_first() -> None:
    assert slots_of({TASK_SLOTS: " 12 "}, 64 * GIB) == 12
    for text in ("0", "-1", "many", "1.5", "²"):
        with pytest.raises(ConfigException, match=r"task\.slots=.*at least 1"):
            slots_of({TASK_SLOTS: text}, 64 * GIB)


def test_the_memory_here_says_nothing_about_a_cluster() -> None:
    assert slots_of({"spark.master": "spark://there:7077"}, 64 * GIB) == ON_A_CLUSTER
    assert slots_of({"spark.master": "local[4]"}, 64 * GIB) > 100


def test_the_smallest_limit_around_a_process_counts(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (groups / "pod" / "container").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/pod/container\n")
    (groups / "pod" / "container" / "memory.max").write_text("max\n")
    assert usable_memory(proc, groups) > 64 << 20
    (groups / "pod" / "memory.max").write_text(f"{64 << 20}\n")
    assert usable_memory(proc, groups) == 64 << 20


def test_the_first_version_of_control_groups_counts_too(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (groups / "memory" / "job").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("7:cpu:/\n4:memory:/job\n0::/\n")
    (groups / "memory" / "job" / "memory.limit_in_bytes").write_text(f"{48 << 20}\n")
    assert usable_memory(proc, groups) == 48 << 20
    assert usable_memory(tmp_path / "none", groups) > 48 << 20


def test_sparks_limits_follow_the_slots() -> None:
    assert spark_settings({}, 8)[DRIVER_MEMORY] == "512m"
    assert spark_settings({}, 300)["spark.master"] == "local[602]"
    assert spark_settings({}, 300)[DRIVER_MEMORY] == "856m"
    assert spark_settings({DRIVER_MEMORY: "1g"}, 300)[DRIVER_MEMORY] == "1g"


def test_no_task_starts_without_memory_for_it_and_for_those_that_start_beside_it() -> None:
    assert find_shortage(TASK_BYTES + SPARE_BYTES, 0) == ""
    assert TASK_SLOTS in find_shortage(TASK_BYTES + SPARE_BYTES - 1, 0)
    assert find_shortage(4 * TASK_BYTES + SPARE_BYTES, 3) == ""
    assert "3 tasks" in find_shortage(4 * TASK_BYTES + SPARE_BYTES - 1, 3)


def test_what_is_left_of_the_smallest_limit_is_free_and_so_are_the_pages_of_files(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (groups / "pod").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/pod\n")
    (groups / "pod" / "memory.max").write_text(f"{64 << 20}\n")
    (groups / "pod" / "memory.current").write_text(f"{50 << 20}\n")
    (groups / "pod" / "memory.stat").write_text(f"anon {40 << 20}\ninactive_file {10 << 20}\n")
    assert free_memory(proc, groups) == 24 << 20
