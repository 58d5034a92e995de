"""Audit entries about events that no request caused."""

from ringfence.audit import trail
from ringfence.audit.outcome import Outcome


def record_ended_transaction(connector: str, by: str, message: str, **_: object) -> None:
    """Write an entry. The receiver of `hanging_transaction_ended`."""
    trail.record(
        "end a hanging transaction",
        user="ringfence",
        via=by,
        address="",
        outcome=Outcome.DONE,
        connector=connector,
        message=message,
    )


def record_foreign_record(connector: str, message: str, **_: object) -> None:
    """Write an entry. The receiver of `foreign_record_found`."""
    trail.record(
        "write to the config topic",
        user="unknown",
        via="Kafka",
        address="",
        outcome=Outcome.DONE,
        connector=connector,
        message=message,
    )
