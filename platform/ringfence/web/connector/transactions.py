"""The Transactions tab: a lane for each task, with its committed, aborted and open transactions."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import path

from ringfence.access.authorise import principal_of
from ringfence.access.principal import Verb
from ringfence.projection.models import Connector
from ringfence.web.connector.header import now_ms
from ringfence.web.connector.tab_page import tab
from ringfence.web.connector.transaction_lanes import list_workers, show_lanes


@tab("transactions")
def transactions(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """A page of lanes: `?page=`."""
    context = show_lanes(row, request.GET.get("page", ""), now_ms())
    may_kill = settings.DEMO_RUN_FOLDER and principal_of(request).may_everywhere(Verb.ADMIN)
    return context | {"victims": list_workers(row) if may_kill else []}


urlpatterns = [path("", transactions)]
