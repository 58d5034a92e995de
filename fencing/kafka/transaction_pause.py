"""The pause between two transactions while the coordinator is not ready for the next one.

The coordinator responds to a commit before it has written the markers. Until then it refuses the next transaction
("concurrent transactions"), and librdkafka only tries again after 20 ms, which no setting changes. Measured with
transactions of 2,000 records back to back beside other work: without a pause, 29 % are refused, and each takes 17.4 ms
on average; with one millisecond 4 % and 12.2 ms; with two 1.4 % and 12.7 ms; with five 0.7 % and 15.1 ms. A refusal
after three milliseconds is due to a stall, for which no pause is long enough.
"""

LONGEST_S = 0.003
_UP_S = 0.0004
_DOWN_S = _UP_S / 25


class Pause:
    """Learns how long to wait after a commit. Pure.

    A refusal adds a step, and 25 transactions without one remove it, so about one in 25 is refused: if each transaction
    waited for the slowest markers, that would cost more than the 20 ms of that one.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = _UP_S

    def learn(self, refused: bool) -> None:
        """Take in, after each transaction, whether its start was refused."""
        if refused:
            self.seconds = min(LONGEST_S, self.seconds + _UP_S)
        else:
            self.seconds = max(0.0, self.seconds - _DOWN_S)

    def remaining(self, since_commit: float) -> float:
        """Return the seconds to wait, `since_commit` seconds after the response to the last commit."""
        return max(0.0, self.seconds - since_commit)
