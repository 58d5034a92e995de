"""Creating a connector, from a form or from pasted JSON."""

from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST

from ringfence import dispatch
from ringfence.access.authorise import authorise, principal_of
from ringfence.access.routes import requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.api import writing
from ringfence.api.errors import ConnectError
from ringfence.audit.trail import note
from ringfence.dispatch import Refused
from ringfence.mirror.models import Connector
from ringfence.web import forms


def _page_of(name: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(f"/ui/connectors/{quote(name, safe='')}")


def _user(request: HttpRequest) -> str:
    return principal_of(request).name


@requires(GET=somewhere(Verb.EDIT), POST=somewhere(Verb.EDIT).writing())
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """`?class=` the form of that plugin, `?mode=json` a text to paste into, neither: the plugins to choose from."""
    if request.method == "POST":
        return _create_pasted(request) if "json" in request.POST else _create_filled(request)
    if request.GET.get("mode") == "json":
        return render(request, "ringfence/new_json.html", {"section": "new", "text": "", "state": "RUNNING"})
    class_name = request.GET.get("class", "")
    return _form(request, class_name) if class_name else _catalog(request)


def _catalog(request: HttpRequest, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {"section": "new"}
    try:
        context["plugins"] = [plugin for plugin in dispatch.list_plugins() if plugin.get("type") == "source"]
    except Refused as refused:
        context["problem"] = refused.message
    return render(request, "ringfence/new_catalog.html", context, status=status)


def _form(
    request: HttpRequest,
    class_name: str,
    name: str = "",
    config: dict[str, str] | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    context: dict[str, Any] = {"section": "new", "class_name": class_name, "name": name, "state": "RUNNING", **more}
    try:
        fields = forms.fields_of(dispatch.config_keys(class_name), config or {})
        if config is not None:
            _put_errors(fields, context, class_name, {**config, "name": name, "connector.class": class_name})
    except Refused as refused:
        context["problem"] = context.get("problem") or refused.message
        fields, status = [], refused.status
    context["fields"] = [field for field in fields if not field.advanced]
    context["advanced"] = [field for field in fields if field.advanced]
    context["wrong"] = [field for field in fields if field.errors]
    context["existing"] = bool(name) and Connector.objects.filter(name=name, known=True).exists()
    return render(request, "ringfence/new_form.html", context, status=status)


def _put_errors(fields: list[forms.Field], context: dict[str, Any], class_name: str, config: dict[str, str]) -> None:
    found = writing.masked_validation(dispatch.validate(class_name, config), class_name, config)
    rest = forms.put_errors(fields, found)
    if found.get("error_count"):
        context["problem"] = " ".join(rest)


def _create_filled(request: HttpRequest) -> HttpResponse:
    posted = request.POST.dict()
    class_name, name = str(posted.get("class", "")), str(posted.get("name", "")).strip()
    config = forms.config_of_form({key: str(value) for key, value in posted.items()})
    state = str(posted.get("state", "RUNNING"))
    try:
        _create(request, name, {**config, "connector.class": class_name}, state)
    except (ConnectError, Refused) as error:
        return _form(request, class_name, name, config, _failed(request, error), problem=error.message, state=state)
    return _page_of(name)


def _create_pasted(request: HttpRequest) -> HttpResponse:
    text, state = str(request.POST["json"]), str(request.POST.get("state", "RUNNING"))
    try:
        name, config = forms.pasted(text)
        _create(request, name, config, state)
    except (ConnectError, Refused) as error:
        context = {"section": "new", "text": text, "problem": error.message, "state": state}
        return render(request, "ringfence/new_json.html", context, status=_failed(request, error))
    return _page_of(name)


def _failed(request: HttpRequest, error: ConnectError | Refused) -> int:
    """The status to answer with; the trail is told, too."""
    note(request, error.message)
    return error.status if isinstance(error, Refused) else error.status_code


def _create(request: HttpRequest, name: str, config: dict[str, str], state: str) -> None:
    authorise(request, Verb.EDIT, name)
    initial = state if state in writing.INITIAL_STATES else "RUNNING"
    writing.create(name, config, initial, _user(request))


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def field(request: HttpRequest) -> HttpResponse:
    """The errors of one setting, while the form is filled in: `?key=`."""
    key, posted = request.GET.get("key", ""), request.POST.dict()
    class_name = str(posted.get("class", ""))
    config = forms.config_of_form({name: str(value) for name, value in posted.items()})
    complete = {**config, "name": str(posted.get("name", "")), "connector.class": class_name}
    try:
        found = dispatch.validate(class_name, complete, ask_brokers=False)
        found = writing.masked_validation(found, class_name, complete)
    except Refused as refused:
        return render(request, "ringfence/parts/field_errors.html", {"errors": [refused.message]})
    values = {str(entry["value"]["name"]): entry["value"].get("errors", []) for entry in found.get("configs", [])}
    return render(request, "ringfence/parts/field_errors.html", {"errors": values.get(key, [])})
