"""The head of every page: whether workers, leader, projection, Kafka and Redis answer."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence.access.authorise import requires, somewhere
from ringfence.access.principal import Verb


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def vital_signs(request: HttpRequest) -> HttpResponse:
    """`/ui/vital-signs`: the fragment for the head, fetched after a `vital` event. `web.page_context`
    provides its content.
    """
    response = render(request, "ringfence/parts/vital_signs.html")
    response["Cache-Control"] = "no-store"
    return response
