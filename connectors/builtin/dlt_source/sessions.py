"""HTTP sessions that connect only to allowed addresses, including redirects and next pages on other hosts."""

from dlt.sources.helpers.requests import Client
from requests import Session

from ringfence.connectors.guarded_requests import restrict_session

_TIMEOUT = 60.0


def open_session() -> Session:
    """Return a session of dlt, with its retries, but without proxies and passwords from the environment."""
    session: Session = Client(request_timeout=_TIMEOUT, raise_for_status=False).session
    restrict_session(session)
    return session
