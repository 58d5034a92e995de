"""The moment between two transactions in which the coordinator is not ready for the next one.

A commit is answered before its markers are written. Who begins the next transaction meanwhile is refused ("concurrent
transactions"), and librdkafka asks again only after 20 ms, which no setting changes. Measured with transactions of
2,000 records back to back: up to 40 % of them were refused; a pause of one millisecond leaves 1 %, and carries a
quarter more records.
"""

LONGEST_S = 0.010
_UP_S = 0.0004
_DOWN_S = 0.000_005


class Pause:
    """Learns how long to hold back after a commit. Pure.

    A refusal raises it by a step that 80 transactions without one take back, so about one in 80 is refused: that costs
    0.25 ms a transaction on average, less than holding back for the slowest markers would.
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

    def left(self, since_commit: float) -> float:
        """Seconds still to wait, `since_commit` seconds after the last commit was answered."""
        return max(0.0, self.seconds - since_commit)
