"""The form of a new connector during editing: its fields, the errors of each, and its alternative, the JSON text."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence import dispatch
from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api import connector_writes, topic_grant_check
from ringfence.audit import probes
from ringfence.connectors.api.config_types import EXAMINES, GUARANTEE
from ringfence.connectors.common_settings import SNAPSHOT_TRANSACTION, TASKS_MAX
from ringfence.dispatch import Refusal
from ringfence.engine.questions import Validate
from ringfence.http.errors import ConnectError
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, SourceOffset
from ringfence.projection.slots import find_shortage
from ringfence.web.new.cards import Layout
from ringfence.web.new.field import SETTING
from ringfence.web.new.form_state import FormState, read_posted, visible_settings
from ringfence.web.new.layout import layout
from ringfence.web.new.transform_menu import menu_items
from ringfence.web.new.transform_predicates import KINDS
from ringfence.web.new.transform_steps import change_steps

_SHOWN_OFFSETS = 5


def form_context(
    request: HttpRequest, draft: FormState, *, tell_all: bool = True, ask_brokers: bool = False, changed: str = ""
) -> dict[str, Any]:
    """Return the templates' context. Without a worker: the present settings, and why there is no form.

    tell_all: if False, a setting's errors appear only once it has a value; changed: or if it is this one.
    """
    settings, problem = visible_settings(request, draft), ""
    validation: dict[str, Any] = {}
    masker = Masker([draft.class_name])
    try:
        if draft.class_name:
            java = principal_of(request).may(Verb.JAVA_PLUGINS, settings.get("name", ""))
            aimed = {**settings, "connector.class": draft.class_name}
            with probes.audit(request, principal_of(request), probes.VALIDATION, aimed):
                validation = dispatch.ask(Validate(draft.class_name, settings, java, ask_brokers))
            connector_writes.remember_secrets(draft.class_name, validation)
            masker = Masker([draft.class_name])
            validation = topic_grant_check.add_to(validation, settings, principal_of(request))
            validation = connector_writes.mask_validation(validation, draft.class_name, settings)
    except Refusal as error:
        problem = error.message

    def secret(key: str) -> bool:
        return masker.secret(draft.class_name, key)

    def tell(key: str) -> bool:
        return tell_all or key == changed or bool(draft.config.get(key))

    form_layout = layout(validation, draft.config, secret, tell)
    for each in form_layout.fields():
        if each.name == TASKS_MAX:
            each.warning = find_shortage(settings)
    _shut_drawer(request, form_layout)
    return {
        "draft": draft,
        "class_name": draft.class_name,
        "layout": form_layout,
        "undeclared": problem,
        "wrong": form_layout.wrong,
        "others_count": len(form_layout.others),
        "guarantee": validation.get(GUARANTEE),
        "has_test": bool(validation.get(EXAMINES)),
        "editing": draft.editing,
        "name_proposal": str(request.POST.get("name-proposal", "")),
        "topic_suffix": str(request.POST.get("topic-suffix", "")),
        "menu": menu_items(),
        "kinds": KINDS,
        "java": any(entry["definition"]["name"] == SNAPSHOT_TRANSACTION for entry in validation.get("configs", [])),
        **begins(request, draft, tell_all=tell_all),
    }


def _shut_drawer(request: HttpRequest, form_layout: Layout) -> None:
    """Leave out the settings of the drawer if the page does not have them yet; at first, without `?all=1`."""
    is_first = request.method != "POST"
    drawer = form_layout.drawer
    absent = "all" not in request.GET if is_first else "later" in request.POST
    drawer.later = absent and drawer.may_come_later
    drawer.missed = absent and not drawer.later and not is_first


def begins(request: HttpRequest, draft: FormState, *, tell_all: bool = True) -> dict[str, Any]:
    """Return what already exists under the name, for users who may use that name."""
    name, errors = draft.name, []
    offsets: list[SourceOffset] = []
    who = principal_of(request)
    if draft.editing:
        pass
    elif not name:
        errors = ["A connector needs a name."] if tell_all else []
    elif not who.may(Verb.EDIT, name):
        errors = [f"You need the edit permission on connector {name}."]
    elif Connector.objects.filter(name=name, known=True).exists():
        errors = ["A connector of this name exists. Choose another name, or edit that one."]
    else:
        offsets = list(SourceOffset.objects.filter(connector=name).order_by("partition")[: _SHOWN_OFFSETS + 1])
    return {
        "name_errors": errors,
        "offsets": [(each.partition, each.offset) for each in offsets[:_SHOWN_OFFSETS]],
        "more_offsets": len(offsets) > _SHOWN_OFFSETS,
        "may_reset": bool(name) and who.may(Verb.OFFSETS, name),
    }


def text_of(draft: FormState) -> str:
    """Return the draft as JSON, with masked secrets."""
    masked_config = Masker([draft.class_name]).mask(draft.config)
    config = dict(sorted(masked_config.items(), key=lambda item: (item[0] != "connector.class", item[0])))
    return json.dumps({"name": draft.name, "config": config}, indent=2, ensure_ascii=False)


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def field(request: HttpRequest) -> HttpResponse:
    """`?key=`: the errors of one setting during typing, with dependent settings; all fields if the set
    of fields changes. `?drawer=1`: the settings of the drawer, which has just been opened.
    """
    key = request.GET.get("key", "")
    try:
        draft = read_posted(request)
    except ConnectError as error:
        return render(request, "ringfence/parts/field_errors.html", {"errors": [error.message]})
    if key == "name":
        return render(request, "ringfence/parts/new_name.html", {"draft": draft, **begins(request, draft)})
    context = form_context(request, draft, tell_all=False, changed=key)  # others have not been visited yet
    if "drawer" in request.GET:
        return render(request, "ringfence/parts/new_drawer.html", context)
    if context["undeclared"]:
        return render(request, "ringfence/parts/field_errors.html", {"errors": [context["undeclared"]]})
    form_layout = context["layout"]
    fields = {each.name: each for each in form_layout.fields()}
    posted_names = {name.removeprefix(SETTING) for name in request.POST if name.startswith(SETTING)}
    absent = form_layout.absent_names()
    if posted_names != {each.name for each in fields.values() if each.visible} - absent:
        response = render(request, "ringfence/parts/new_fields.html", context)
        response["HX-Retarget"], response["HX-Reswap"] = "#as-form", "innerHTML"
        return response
    changed_field = fields.get(key)
    context["changed"] = changed_field
    context["dependents"] = [
        fields[name] for name in (changed_field.dependents if changed_field else ()) if name in fields.keys() - absent
    ]
    again = {key, *(each.name for each in context["dependents"])}
    context["others"] = [each for each in fields.values() if each.is_set and each.name not in again]
    return render(request, "ringfence/parts/new_field.html", context)


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def steps(request: HttpRequest) -> HttpResponse:
    """`step=add:<type>` and the like: return the fields with a transform added, removed, or moved."""
    try:
        draft = read_changed(request)
    except ConnectError as error:
        return _render_problem(request, error)
    context = {**form_context(request, draft, tell_all=False), "draw_menu": True}
    response = render(request, "ringfence/parts/new_fields.html", context)
    response["HX-Trigger-After-Swap"] = json.dumps({"ringfence-step": str(request.POST.get("step", ""))})
    return response


def read_changed(request: HttpRequest) -> FormState:
    """Return the draft with the change to its transforms that the button requests. Raises `ConnectError`."""
    draft = read_posted(request)
    draft.config = change_steps(draft.config, str(request.POST.get("step", "")))
    draft.mode = "form"
    return draft


def _render_problem(request: HttpRequest, error: ConnectError) -> HttpResponse:
    context = {"problem": error.message}
    response = render(request, "ringfence/parts/new_outcome.html", context, status=error.status_code)
    response["HX-Retarget"] = "#outcome"
    return response


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def switch_mode(request: HttpRequest) -> HttpResponse:
    """`?mode=`: convert the form to text, or back. Nothing is lost: unknown settings are kept, and secrets stay where
    they were typed.
    """
    mode = "json" if request.GET.get("mode") == "json" else "form"
    try:
        draft = read_posted(request)
        if not draft.class_name:
            raise ConnectError(400, "connector.class is missing: without it there is no form. Add it to the text.")
    except ConnectError as error:
        # Shown beside the text, not as a failure: the user is still typing.
        response = render(request, "ringfence/parts/field_errors.html", {"errors": [error.message]})
        response["HX-Retarget"], response["HX-Trigger"] = "#json-error", "ringfence-unread"
        return response
    if mode == "json":
        return _switch_mode(render(request, "ringfence/parts/new_text.html", {"text": text_of(draft)}), mode)
    context: dict[str, Any] = {**form_context(request, draft), "told": True}
    return _switch_mode(render(request, "ringfence/parts/new_fields.html", context), mode)


def _switch_mode(response: HttpResponse, mode: str) -> HttpResponse:
    response["HX-Trigger-After-Swap"] = json.dumps({"ringfence-mode": mode})
    return response
