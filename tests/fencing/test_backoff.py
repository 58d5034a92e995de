"""Pauses between attempts grow to a limit, and differ between those who failed together."""

from ringfence.fencing.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 30, jitter=0)
    assert [backoff.pause(failures) for failures in range(9)] == [0, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert backoff.pause(10_000) == 30


def test_pauses_of_many_differ_within_a_fifth() -> None:
    pauses = {Backoff(10, 60).pause(1) for _ in range(100)}
    assert len(pauses) > 90
    assert 8 <= min(pauses) < max(pauses) <= 10
