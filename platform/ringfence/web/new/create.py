"""Creating a connector: from a plugin of the catalog, a copy of another connector, or pasted text; its
form; its creation.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_http_methods, require_safe

from ringfence import dispatch
from ringfence.access.authorise import authorise, principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api import connector_writes
from ringfence.api.v1 import offsets
from ringfence.api.v1.plugin_installations import are_workers_starting, takers
from ringfence.audit.trail import note
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.known_plugins import find_known
from ringfence.dispatch import Refusal
from ringfence.engine.questions import ConfigKeys, ListPlugins
from ringfence.history.plugins import versions_by_worker
from ringfence.http.errors import ConnectError
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector
from ringfence.web.new import form as filling
from ringfence.web.new.catalog import card_of, find_installable, group, matches
from ringfence.web.new.connection_test import propose_topics, proposed_name, test_context
from ringfence.web.new.field import SETTING
from ringfence.web.new.form_state import FormState, complete, read_posted
from ringfence.web.new.proposals import topic_suffix
from ringfence.web.views import find, is_fragment


@requires(GET=somewhere(Verb.EDIT), POST=somewhere(Verb.EDIT).writing())
@require_http_methods(["GET", "HEAD", "POST"])
@ensure_csrf_cookie
def new(request: HttpRequest) -> HttpResponse:
    """`?class=` shows the form of that plugin (`&sample=1`: with its sample configuration; `&setting:<name>=`: with
    that setting), `?from=` a copy of that connector, `?mode=json` a field for pasted text; otherwise the catalog, with
    `?q=` its search.
    """
    if request.method == "POST":
        return _create(request)
    if request.GET.get("mode") == "json":
        return _page(request, FormState(mode="json"), tell_all=False)
    if "from" in request.GET:
        return _copy(request, request.GET["from"])
    class_name = request.GET.get("class", "")
    if class_name:
        return _show_form(request, class_name)
    return _catalog(request)


@requires(GET=somewhere(Verb.EDIT))
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """`?class=`: every setting of a plugin with its documentation; a fragment of the catalog."""
    context: dict[str, Any] = {"section": "new", "class_name": request.GET.get("class", "")}
    status = 200
    try:
        context["keys"] = dispatch.ask(ConfigKeys(context["class_name"]))
        plugins = (plugin for plugin in dispatch.ask(ListPlugins()) if context["class_name"] in plugin.get("names", ()))
        context["documentation"] = next(plugins, {}).get("documentation", "")
    except Refusal as error:
        context["problem"], status = error.message, error.status
    template = "ringfence/parts/new_docs.html" if is_fragment(request) else "ringfence/new_docs.html"
    return render(request, template, context, status=status)


def _catalog(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    context: dict[str, Any] = {"section": "new", "query": query}
    try:
        plugins = [plugin for plugin in dispatch.ask(ListPlugins()) if plugin.get("type") == "source"]
        fitting = [plugin for plugin in plugins if matches(plugin, query)]
        context |= {"groups": group(fitting, versions_by_worker()), "shown": len(fitting), "count": len(plugins)}
        context["installable"] = find_installable(query, plugins)
        context["takers"] = bool(context["installable"]) and takers()
        context["are_workers_starting"] = bool(context["installable"]) and are_workers_starting()
    except Refusal as error:
        context["problem"] = error.message
    who = principal_of(request)
    context["may_install"] = who.may_everywhere(Verb.INSTALL_PLUGINS)
    may_copy = Connector.objects.filter(who.query(Verb.VIEW_CONFIG), known=True)
    context["copies"] = list(may_copy.order_by("name").values_list("name", flat=True)[:500])
    part = is_fragment(request) and "q" in request.GET
    return render(request, "ringfence/parts/new_plugins.html" if part else "ringfence/new_catalog.html", context)


def _show_form(request: HttpRequest, class_name: str) -> HttpResponse:
    """Show the form of a plugin, with what is known to be needed, and with what the address gives."""
    plugin = _find_plugin(class_name)
    sample = (plugin.get("catalog") or {}).get("sample", {}) if "sample" in request.GET else {}
    foreign = find_known(str(plugin.get("class")))
    preset = foreign.preset if foreign is not None else {}
    config = {"connector.class": class_name, **preset, **sample, **_settings_in(request.GET.dict())}
    proposal = proposed_name(request, class_name, config)
    draft = FormState(name=request.GET.get("name", "").strip() or proposal, config=config)
    more: dict[str, Any] = {
        "plugin": card_of(plugin) if plugin else None,
        "name_proposal": proposal,
        "topic_suffix": topic_suffix((plugin.get("catalog") or {}).get("sample", {})),
    }
    return _page(request, draft, tell_all=False, proposes=True, **more)


def _find_plugin(class_name: str) -> Mapping[str, Any]:
    """Return an installed plugin by any of its names; nothing for an unknown one, which the form reports."""
    try:
        plugins = dispatch.ask(ListPlugins())
    except Refusal:
        return {}
    return next((plugin for plugin in plugins if class_name in plugin.get("names", ())), {})


def _settings_in(query: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings in the address of a prefilled form."""
    return {key.removeprefix(SETTING): str(value) for key, value in query.items() if key.startswith(SETTING)}


def _copy(request: HttpRequest, name: str) -> HttpResponse:
    """Copy a connector. Its secrets are kept only for users who may change it; others must type them again."""
    authorise(request, Verb.VIEW_CONFIG, name)
    row = find(name)
    keeps = principal_of(request).may(Verb.EDIT, name)
    masked_settings = Masker([row.class_name]).mask(row.settings)
    left_out = [key for key, value in masked_settings.items() if value == HIDDEN and not keeps]
    config = {key: value for key, value in masked_settings.items() if key != "name" and key not in left_out}
    copy = _free(f"{name}-copy")
    return _page(request, FormState(name=copy, config=config, of=name if keeps else ""), model=name, left_out=left_out)


def _free(name: str) -> str:
    used_names = set(Connector.objects.filter(name__startswith=name).values_list("name", flat=True))
    return next(
        free for number in range(1, 1000) if (free := name if number == 1 else f"{name}-{number}") not in used_names
    )


def _page(
    request: HttpRequest,
    draft: FormState,
    *,
    tell_all: bool = True,
    status: int = 200,
    proposes: bool = False,
    **more: Any,
) -> HttpResponse:
    """proposes: whether to fill in the names of topics."""
    context = {"section": "new", **filling.form_context(request, draft, tell_all=tell_all), **more}
    if proposes:
        propose_topics(context["layout"], draft, context["topic_suffix"])
    if draft.class_name:
        context.setdefault("text", filling.text_of(draft))
    context |= {"json_open": not draft.class_name}
    return render(request, "ringfence/new_form.html", context, status=status)


def _create(request: HttpRequest) -> HttpResponse:
    draft = FormState(mode="json" if "json" in request.POST else "form")
    try:
        if "step" in request.POST:  # a transform button, used without JavaScript
            return _page(request, filling.read_changed(request), tell_all=False)
        draft = read_posted(request)
        if "test" in request.POST:  # without JavaScript
            return render(request, "ringfence/new_form.html", {"section": "new", **test_context(request, draft)})
        config = complete(request, draft)
        by = principal_of(request)
        if draft.fresh:
            authorise(request, Verb.OFFSETS, draft.name)
            offsets.create_fresh(draft.name, config, draft.state, by)
        else:
            connector_writes.create(draft.name, config, draft.state, by, await_rows=False)
    except (ConnectError, Refusal) as error:
        return _render_refused(request, draft, error)
    address = f"/ui/connectors/{quote(draft.name, safe='')}"
    if is_fragment(request):
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)


def _render_refused(request: HttpRequest, draft: FormState, error: ConnectError | Refusal) -> HttpResponse:
    """Show the errors with a link to each field, and write the failure to the audit trail."""
    note(request, error.message)
    status = error.status if isinstance(error, Refusal) else error.status_code
    context = {"section": "new", **filling.form_context(request, draft, ask_brokers=True)}
    context["problem"] = error.message
    if context["wrong"] or context["name_errors"]:
        context["problem"] = " ".join(context["layout"].rest)
    if is_fragment(request):
        return render(request, "ringfence/parts/new_outcome.html", {**context, "slots": True}, status=status)
    context |= {"text": filling.text_of(draft)}
    return render(request, "ringfence/new_form.html", context, status=status)
