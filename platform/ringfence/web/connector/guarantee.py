"""What a connector guarantees with its configuration: for its page, which asks for it when it is there."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence import dispatch
from ringfence.access.authorise import on_connector, requires
from ringfence.access.principal import Verb
from ringfence.dispatch import Refusal
from ringfence.engine.questions import DescribeGuarantee
from ringfence.http.masking import Masker
from ringfence.projection.models import find_connector
from ringfence.web.views import render_gone


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def guarantee(request: HttpRequest, name: str) -> HttpResponse:
    """A fragment. A worker's plugin process answers, since only there plugin code may run."""
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    config = row.settings
    try:
        description = dispatch.ask(DescribeGuarantee({**config, "name": name}))
    except Refusal as error:
        return render(request, "ringfence/parts/guarantee.html", {"problem": error.message})
    description["why"] = Masker([row.class_name]).scrub(description["why"], config)
    return render(request, "ringfence/parts/guarantee.html", {"guarantee": description})
