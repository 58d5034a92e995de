"""The moment between two transactions in which the coordinator is not ready for the next one.

A commit is answered before its markers are written. Who begins the next transaction in the meantime is refused
("concurrent
transactions"), and librdkafka asks again only after 20 ms, which no setting changes. Measured with transactions of
2,000 records back to back beside other work: without a pause 29 % are refused, and each takes 17.4 ms on average; with
one millisecond 4 % and 12.2 ms; with two 1.4 % and 12.7 ms; with five 0.7 % and 15.1 ms. What is refused after three
milliseconds met a stall, for which no pause is long enough.
"""

LONGEST_S = 0.003
_UP_S = 0.0004
_DOWN_S = _UP_S / 25


class Pause:
    """Learns how long to hold back after a commit. Pure.

    A refusal raises it by a step that 25 transactions without one take back, so about one in 25 is refused: to hold
    back for the slowest markers would cost each transaction more than the 20 ms cost that one.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = _UP_S

    def learn(self, refused: bool) -> None:
        """After each transaction: whether its start was refused."""
        if refused:
            self.seconds = min(LONGEST_S, self.seconds + _UP_S)
        else:
            self.seconds = max(0.0, self.seconds - _DOWN_S)

    def remaining(self, since_commit: float) -> float:
        """Seconds still to wait, `since_commit` seconds after the last commit was answered."""
        return max(0.0, self.seconds - since_commit)
