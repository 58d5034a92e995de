"""The preflight checks of a form that is being filled in: a fragment below it."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence.access.authorise import authorise
from ringfence.access.routes import requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.api import writing
from ringfence.api.errors import ConnectError
from ringfence.api.masking import has_mask, unmasked
from ringfence.api.preflight import checks_of
from ringfence.dispatch import Refused
from ringfence.web import forms
from ringfence.web.states import Look, Tone

REFUSES = Look("Failed", "circle-x", Tone.BAD, "The configuration is refused because of this.")
LOOKS = {
    "ok": Look("Ok", "circle-check", Tone.OK),
    "failed": Look("Failed", "triangle-alert", Tone.WARN, "A warning: the connector can be created, and will meet it."),
    "unknown": Look("Unknown", "circle-question-mark", Tone.UNKNOWN, "This could not be found out."),
}


def _look(check: Mapping[str, Any]) -> Look:
    return REFUSES if check.get("decides") else LOOKS.get(check["result"], LOOKS["unknown"])


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def preflight(request: HttpRequest) -> HttpResponse:
    """Of the form's settings, or of pasted JSON."""
    return _checked(request)


def told(complete: dict[str, str]) -> dict[str, Any]:
    """The checks of a complete configuration, for the template. Raises Refused."""
    found = checks_of(complete)
    troubles = sum(check["result"] != "ok" for check in found)
    return {"checks": [(_look(check), check) for check in found], "troubles": troubles}


def _checked(request: HttpRequest) -> HttpResponse:
    posted = {key: str(value) for key, value in request.POST.items()}
    context: dict[str, Any] = {}
    try:
        if "json" in posted:
            name, config = forms.pasted(posted["json"])
        else:
            name = posted.get("name", "").strip()
            config = {**forms.config_of_form(posted), "connector.class": posted.get("class", "")}
        if has_mask(config):  # it stands for what is stored under that name
            authorise(request, Verb.EDIT, name)
            authorise(request, Verb.VIEW_CONFIG, name)
        complete = writing.named(name, unmasked(config, writing.stored_settings(name)))
        context = told(complete)
    except (ConnectError, Refused) as error:
        context["problem"] = error.message
    return render(request, "ringfence/parts/preflight.html", context)
