"""Audit entries of what the projection notices.

The trail is imported with the first entry: each process that sets Django up loads this module, and with the trail it
would load Celery and the client of Redis, too, which takes as long as all the rest of that.
"""


def record_ended_transaction(connector: str, by: str, message: str, **_: object) -> None:
    """Write an entry. The receiver of `hanging_transaction_ended`."""
    _record("end a hanging transaction", user="ringfence", via=by, connector=connector, message=message)


def record_foreign_record(connector: str, message: str, **_: object) -> None:
    """Write an entry. The receiver of `foreign_record_found`."""
    _record("write to the config topic", user="unknown", via="Kafka", connector=connector, message=message)


def _record(action: str, *, user: str, via: str, connector: str, message: str) -> None:
    from ringfence.audit import trail
    from ringfence.audit.models import Outcome

    trail.record(action, user=user, via=via, address="", outcome=Outcome.DONE, connector=connector, message=message)
