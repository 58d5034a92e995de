"""The ends of transactions, as their coordinator knows them."""

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import TransactionProber
from tests.support.waiting import eventually


def await_markers(connection: Connection, *ids: str) -> None:
    """Wait until no transaction of these ids is open: a commit or abort is answered before its markers are written."""

    def ended() -> bool:
        with TransactionProber(connection) as prober:
            return not any(each.open for each in prober.transactions(ids, Deadline.after(30)))

    eventually(ended, 60, f"the markers of {', '.join(ids)}")
