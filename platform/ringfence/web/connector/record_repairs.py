"""Repairs for a record that fails a task: divert it to a dead letter queue, change the setting that rejects it, or roll
back.

Each asks for confirmation. A repair is a configuration change: it is validated, audited and kept as a version, like one
from the form.
"""

import re
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_http_methods, require_safe

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api import connector_writes
from ringfence.connectors.sdk.delivery import DEAD_LETTERS
from ringfence.dispatch import Refusal
from ringfence.fencing.records.error_handling import TOLERANCE
from ringfence.history.models import ConfigVersion
from ringfence.http.errors import ConnectError
from ringfence.http.masking import Masker, unmask
from ringfence.projection.models import Connector, Task, find_connector
from ringfence.web.connector.config import effect
from ringfence.web.connector.config_diff import changes
from ringfence.web.connector.tab_page import record_failure, render_confirmation, render_done
from ringfence.web.views import render_gone

_EDITS = on_connector(Verb.EDIT, Verb.VIEW_CONFIG)


@requires(GET=_EDITS, POST=on_connector(Verb.EDIT, Verb.VIEW_CONFIG).writing())
@require_http_methods(["GET", "HEAD", "POST"])
def use_dead_letter_queue(request: HttpRequest, name: str) -> HttpResponse:
    """Send bad records, including this one, to a dead letter queue from now on."""
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    topic = str(request.POST.get("topic") or row.settings.get(DEAD_LETTERS) or _topic_of(name)).strip()
    config = {**row.settings, TOLERANCE: "all", DEAD_LETTERS: topic}
    return _repair(request, row, config, "repair_dead_letter", {"topic": topic})


def _topic_of(name: str) -> str:
    """Return a valid topic name: a connector's name may have characters that a topic's cannot."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", name)[:235] + "-dead-letters"


@requires(GET=_EDITS, POST=on_connector(Verb.EDIT, Verb.VIEW_CONFIG).writing())
@require_http_methods(["GET", "HEAD", "POST"])
def change_setting(request: HttpRequest, name: str) -> HttpResponse:
    """`?task=`: change the settings of the transform or converter that failed on the record."""
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    text = request.GET.get("task") or request.POST.get("task", "0")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    task = Task.objects.filter(connector=name, number=number).first()
    failure = task.record_failure if task is not None else None
    names = failure.settings if failure is not None else ()
    masked_settings = Masker([row.class_name]).mask(row.settings)
    values = {each: str(request.POST[each]).strip() for each in names if each in request.POST}
    changes = {each: value for each, value in values.items() if value != masked_settings.get(each, "")}
    config = unmask({**row.settings, **changes}, row.settings)
    fields = [(each, values.get(each, masked_settings.get(each, "")), masked_settings.get(each, "")) for each in names]
    return _repair(request, row, config, "repair_setting", {"fields": fields, "task": number, "record": failure})


@requires(GET=_EDITS)
@require_safe
def rollback(request: HttpRequest, name: str) -> HttpResponse:
    """Confirm the rollback to the newest version that differs from the current configuration."""
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    settings = row.settings
    versions = ConfigVersion.objects.filter(connector=name).order_by("-number")[:100]
    target = next((one for one in versions if one.settings != settings), None)
    if target is None:
        return render_confirmation(request, row, "repair_nothing", {})
    return HttpResponseRedirect(f"/ui/connectors/{row.path}/versions/{target.number}/rollback")


def _repair(
    request: HttpRequest, row: Connector, config: dict[str, str], part: str, details: dict[str, Any]
) -> HttpResponse:
    masker = Masker({row.class_name, config.get("connector.class", "")})
    context = {**details, "diff": changes(row.settings, config, masker), "loaded": row.config_offset, **effect(row)}
    if request.method != "POST":
        return render_confirmation(request, row, part, context)
    try:
        if request.POST.get("version") != str(row.config_offset):
            raise Refusal(409, "The configuration was changed in between. Below is what would change now.")
        if config == row.settings:
            raise Refusal(422, "Nothing differs from the configuration now. Change a value, or cancel.")
        connector_writes.configure(row.name, config, principal_of(request), expected=row.config_offset)
    except (ConnectError, Refusal) as error:
        return render_confirmation(
            request, row, part, {**context, "problem": error.message}, record_failure(request, error)
        )
    hint = "Its tasks start as a new generation, at the last committed offset."
    return render_done(request, row, "The configuration was changed.", "config", hint=hint if context["tasks"] else "")
