"""The schedule is a function of its seed, and leaves nothing out."""

from itertools import islice

from tests.chaos.schedule import Act, steps


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert list(islice(steps(7), 100)) == list(islice(steps(7), 100))
    assert list(islice(steps(7), 100)) != list(islice(steps(8), 100))


def test_every_act_comes_before_any_comes_twice() -> None:
    assert {step.act for step in islice(steps(3), len(Act))} == set(Act)
