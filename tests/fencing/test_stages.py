"""The stages of a request: sums, other processes' stages, and blocks that nobody measures."""

import math

from ringfence.fencing import stages


def test_a_stage_that_runs_twice_counts_as_the_sum() -> None:
    with stages.collect() as parts:
        stages.add({"write": 2.0})
        stages.add({"write": 3.0, "read": 1.0})
        with stages.stage("measured"):
            pass
    assert parts.pop("measured") >= 0
    assert parts == {"write": 5.0, "read": 1.0}


def test_nothing_is_collected_outside_of_a_request() -> None:
    with stages.stage("unseen"):
        stages.add({"unseen": 1.0})
    with stages.collect() as parts:
        pass
    assert parts == {}


def test_only_numbers_of_another_process_count() -> None:
    sent = {"read": 1, "odd": "2", "endless": math.inf, "not a number": math.nan, "write": 2.5}
    assert stages.parse(sent) == {"read": 1.0, "write": 2.5}
    assert stages.parse(["read"]) == stages.parse({str(n): 1.0 for n in range(1000)}) == {}
