"""HTTP sessions that connect to allowed addresses only, also after a redirect or to a next page elsewhere."""

from dlt.sources.helpers.requests import Client
from requests import Session

from ringfence.connectors.guarded_requests import guard

_TIMEOUT = 60.0


def open_session() -> Session:
    """dlt's own, with its repetitions; no proxy and no password of the environment."""
    session: Session = Client(request_timeout=_TIMEOUT, raise_for_status=False).session
    guard(session)
    return session
