"""Whether preflight says that a task could be placed where its plugin, or its version, is missing."""

import pytest

from ringfence.engine.preflight.other_workers import Versions, check_versions
from ringfence.engine.preflight.subject import Result

A = "io.debezium.A"
BOTH: Versions = {"worker-a": {A: ["2.0.0", "1.0.0"]}, "worker-b": {A: ["1.0.0"]}}


@pytest.mark.parametrize("workers", [{}, {"worker-a": {A: ["1.0.0"]}}])
def test_a_worker_alone_differs_from_none(workers: Versions) -> None:
    assert check_versions(A, "", workers) is None


def test_the_newest_of_each_worker_is_what_a_task_would_run() -> None:
    found = check_versions(A, "", BOTH)
    assert found is not None
    assert (found.result, found.refuses, found.key) == (Result.FAILED, False, "connector.plugin.version")
    assert "worker-a runs 2.0.0, worker-b runs 1.0.0" in found.message


def test_a_version_that_one_worker_lacks_names_the_worker_and_the_remedy() -> None:
    found = check_versions(A, "[2.0,3.0)", BOTH)
    assert found is not None
    assert found.message == f"worker-b has no {A} [2.0,3.0): a task that is placed there fails."
    assert "ringfence plugins install" in found.remedy
    gone = check_versions(A, "", {**BOTH, "worker-c": {}, "worker-d": {}})
    assert gone is not None
    assert gone.message.startswith("worker-c, worker-d have no ")
    assert gone.key == "connector.class"


def test_a_version_that_all_have_is_fine() -> None:
    found = check_versions(A, "1.0.0", BOTH)
    assert found is not None
    assert (found.result, found.message) == (Result.OK, f"Each of 2 workers has {A} 1.0.0.")
