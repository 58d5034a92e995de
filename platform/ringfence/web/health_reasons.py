"""Why a page shows the health that it shows: one plain line without any of the connector's settings."""

from ringfence.projection.health_reasons import reason_of_health
from ringfence.projection.models import Connector
from ringfence.web.known_health import KnownHealth


def reason(connector: Connector, known: KnownHealth, waits: str = "") -> str:
    """ "" where the word says it all. `waits`: for a slot, in words."""
    return known.doubt(connector) or waits or reason_of_health(connector)
