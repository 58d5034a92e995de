"""When a clock counts as set back. Pure."""

from ringfence.engine.worker_threads import ClockWatch


class Hands:
    """Two clocks."""

    def __init__(self) -> None:
        self.monotonic_s, self.wall_s = 100.0, 1_800_000_000.0

    def monotonic(self) -> float:
        return self.monotonic_s

    def wall(self) -> float:
        return self.wall_s

    def go_on(self, seconds: float, step: float = 0.0) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds + step


def test_only_a_step_back_counts_and_only_once() -> None:
    hands = Hands()
    watch = ClockWatch(hands)
    for step, found in ((0.0, 0), (3600.0, 0), (-600.0, 600), (0.0, 0), (-2.0, 0), (-3600.0, 3600)):
        hands.go_on(0.5, step)
        assert round(watch.step_back()) == found, step


def test_a_clock_that_is_corrected_slowly_does_not_count() -> None:
    hands = Hands()
    watch = ClockWatch(hands)
    for _ in range(10_000):
        hands.go_on(0.5, -0.05)  # a hundred times faster than adjtime(3)
        assert watch.step_back() == 0
