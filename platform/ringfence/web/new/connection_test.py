"""The test of a connection, from the form of a new or edited connector: a worker asks the source, and the form then
proposes what the source's answer shows.

Nothing is created or written.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence import dispatch
from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.audit import probes
from ringfence.dispatch import Refusal
from ringfence.engine.questions import Examine
from ringfence.http.errors import ConnectError
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, SourceOffset
from ringfence.web.hooks.links import is_hook_class
from ringfence.web.hooks.receiver import PREFIX
from ringfence.web.new.cards import SOURCE, Layout
from ringfence.web.new.form import form_context
from ringfence.web.new.form_state import FormState, complete, read_posted
from ringfence.web.new.layout import TOPIC_NAMES
from ringfence.web.new.proposals import propose_name

Errors = Mapping[str, list[str]]


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def test(request: HttpRequest) -> HttpResponse:
    """Test the connection: return the fields, with errors, or with what the source proposes."""
    try:
        context = test_context(request, read_posted(request))
    except (ConnectError, Refusal) as error:
        context = {"problem": error.message}
        response = render(request, "ringfence/parts/new_outcome.html", context)
        response["HX-Retarget"], response["HX-Reswap"] = "#outcome", "innerHTML"
        return response
    response = render(request, "ringfence/parts/new_fields.html", context)
    if context["tested"]["ok"] and not any(each.required and not each.is_set for each in context["layout"].fields()):
        response["HX-Trigger-After-Settle"] = "ringfence-tested"
    return response


def test_context(request: HttpRequest, draft: FormState) -> dict[str, Any]:
    """Return the templates' context after a test. Raises `ConnectError` and `Refusal`."""
    draft.mode = "form"
    config = complete(request, draft)
    principal = principal_of(request)
    java = principal.may(Verb.JAVA_PLUGINS, draft.name)
    with probes.audit(request, principal, probes.TEST, config):
        examination = dispatch.ask(Examine(config, java))
    proposal = str(request.POST.get("name-proposal", ""))
    if examination is not None and not examination["errors"]:
        proposal = _take_proposals(request, draft, examination["proposals"], proposal)
    context = form_context(request, draft, tell_all=False)
    form_layout: Layout = context["layout"]
    errors = _connection_errors(request, draft) if examination is None else examination["errors"]
    _show(form_layout, errors)
    draft.has_answer = not errors
    summary = "" if examination is None else examination["summary"]
    unplaced = [text for name, texts in errors.items() if form_layout.find(name) is None for text in texts]
    tested = {"ok": not errors, "summary": summary, "errors": unplaced, "hook": _hook_address(request, draft)}
    return {**context, "wrong": form_layout.wrong, "tested": tested, "name_proposal": proposal}


def _hook_address(request: HttpRequest, draft: FormState) -> str:
    """Return where senders will send their requests; "" for other connectors, and without a name."""
    if not draft.name or not is_hook_class(draft.class_name):
        return ""
    return request.build_absolute_uri(f"{PREFIX}{quote(draft.name, safe='')}")


def _take_proposals(request: HttpRequest, draft: FormState, proposals: Mapping[str, str], former: str) -> str:
    """Fill in what is not set, and the names that were only proposed before: `former`. Returns the proposed name."""
    filled_names = {name for name, value in draft.config.items() if value.strip()}
    draft.config |= {name: value for name, value in proposals.items() if name not in filled_names}
    if draft.editing or draft.name != former:
        return former
    draft.name = proposed_name(request, draft.class_name, draft.config) or former
    suffix = str(request.POST.get("topic-suffix", ""))
    for name in TOPIC_NAMES:
        if draft.config.get(name) == former + suffix:
            draft.config[name] = draft.name + suffix
    return draft.name


def _connection_errors(request: HttpRequest, draft: FormState) -> dict[str, list[str]]:
    """Return the validation's errors of the settings with which the source is reached."""
    form_layout: Layout = form_context(request, draft)["layout"]
    sections = [section for card in form_layout.cards if card.key == SOURCE for section in card.sections]
    return {each.name: each.errors for section in sections for each in section.fields if each.errors}


def _show(form_layout: Layout, errors: Errors) -> None:
    for each in form_layout.fields():
        each.errors = list(dict.fromkeys([*errors.get(each.name, ()), *each.errors]))


def propose_topics(form_layout: Layout, draft: FormState, suffix: str) -> None:
    """Fill in the required names of topics, after the connector's name."""
    for name in TOPIC_NAMES:
        field = form_layout.find(name)
        if field is not None and field.required and not field.is_set and draft.name:
            field.value = draft.config[name] = draft.name + suffix


def proposed_name(request: HttpRequest, class_name: str, config: Mapping[str, str]) -> str:
    """Return a name that the user may give to a new connector and that nothing has had; "" if there is none."""
    who = principal_of(request)
    masked_config = Masker([class_name]).mask(config)

    def is_free(name: str) -> bool:
        return (
            who.may(Verb.EDIT, name)
            and not Connector.objects.filter(name=name).exists()
            and not SourceOffset.objects.filter(connector=name).exists()
        )

    return propose_name(masked_config, class_name, is_free)
