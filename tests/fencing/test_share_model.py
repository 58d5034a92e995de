"""Each rule of the share group's ledger is needed, and together they are enough: random runs of the model."""

import pytest

from tests.fencing.model.shares import Rules, walk

RUNS = 400


def test_with_every_rule_no_record_is_there_twice_and_none_is_lost() -> None:
    assert [seed for seed in range(RUNS) if walk(Rules(), seed) is not None] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_same_in_many_and_longer_runs() -> None:
    assert [seed for seed in range(3000) if walk(Rules(), seed, steps=160) is not None] == []


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (Rules(check=False), "twice"),
        (Rules(tail=False), "twice"),
        (Rules(undecided=False), "twice"),
        (Rules(marker=False), "twice"),
        (Rules(same_transaction=False), "twice"),
        (Rules(one_log=False), "twice"),
        (Rules(read_again=False), "twice"),
        (Rules(sweep=False), "lost"),
        (Rules(whole=False), "lost"),
        (Rules(counts=False), "twice"),
    ],
    ids=[
        "check",
        "tail",
        "undecided",
        "marker",
        "same-transaction",
        "one-log",
        "read-again",
        "sweep",
        "whole",
        "counts",
    ],
)
def test_without_a_rule_the_model_finds_what_it_is_for(rules: Rules, found: str) -> None:
    assert found in (walk(rules, seed) for seed in range(10 * RUNS))
