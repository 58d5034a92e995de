"""The tabs of a connector's page that only show: links, each with an address of its own."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from ringfence.access.authorise import principal_of
from ringfence.access.verbs import Verb
from ringfence.projection.models import Connector
from ringfence.web.connector import generations as fencing_rounds
from ringfence.web.connector import timeline as story
from ringfence.web.connector import transaction_lanes as lanes
from ringfence.web.connector.frame import tab
from ringfence.web.connector.header import now_ms


@tab("transactions")
def transactions(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """A lane per task: `?page=`."""
    shown = lanes.transactions(row, request.GET.get("page", ""), now_ms())
    may_kill = settings.DEMO_RUN_FOLDER and principal_of(request).may_everywhere(Verb.ADMIN)
    return shown | {"victims": lanes.list_workers(row) if may_kill else []}


@tab("generations")
def generations(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Each generation's configuration against the one before, and its fencing round: `?page=`."""
    may_read = principal_of(request).may(Verb.VIEW_CONFIG, row.name)
    return fencing_rounds.generations(row, request.GET.get("page", ""), with_config=may_read)


@tab("timeline")
def timeline(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Events and audit entries in one list: `?kind=&page=`."""
    return story.story(row, principal_of(request), request.GET.get("kind", ""), request.GET.get("page", ""))
