"""Editing a configuration, as JSON or as a form. The form carries the version that it was loaded from. A newer version
is not overwritten, but shown beside the changes in a three-way comparison (`merge`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_http_methods, require_safe

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api import connector_writes
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.dispatch import Refusal
from ringfence.history.models import ConfigVersion
from ringfence.http.errors import ConnectError
from ringfence.http.masking import Masker, unmask
from ringfence.projection.models import Connector, find_connector
from ringfence.web.connector.config import effect
from ringfence.web.connector.config_diff import changes
from ringfence.web.connector.tab_page import record_failure
from ringfence.web.new import form as filling
from ringfence.web.new.connection_test import test_context
from ringfence.web.new.field import pretty
from ringfence.web.new.form_state import FormState, draft_of, read_posted
from ringfence.web.views import find, is_fragment, render_gone

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ThreeWay:
    """A setting that was changed since a form was loaded, or that the form changes, or both. Secrets are masked.

    conflict: both changed it, to different values.
    """

    key: str
    base: str | None
    now: str | None
    mine: str | None
    theirs_changed: bool
    conflict: bool


def fill_masks(mine: Config, base: Config) -> dict[str, str]:
    """Replace each mask in the form's settings by the value that the form was loaded with."""
    return {key: base.get(key, value) if value == HIDDEN else value for key, value in mine.items()}


def three_way(base: Config, now: Config, mine: Config, masker: Masker) -> list[ThreeWay]:
    """Return others' changes (base to now) beside the form's changes (base to mine). Masks must be
    filled in already.
    """
    masked_configs = [masker.mask(config) for config in (base, now, mine)]
    rows = []
    for key in sorted(base.keys() | now.keys() | mine.keys()):
        was, there, after = base.get(key), now.get(key), mine.get(key)
        if was == there == after:
            continue
        old, current, new = (config.get(key) for config in masked_configs)
        conflict = there != was and after != was and there != after
        rows.append(ThreeWay(key, old, current, new, there != was, conflict))
    return rows


def merge(base: Config, now: Config, mine: Config) -> dict[str, str]:
    """Merge the form's changes into the current configuration. In a conflict, the form wins."""
    result = {}
    for key in base.keys() | now.keys() | mine.keys():
        value = now.get(key) if mine.get(key) == base.get(key) else mine.get(key)
        if value is not None:
            result[key] = value
    return result


def mask_again(merged_config: Config, now: Config, form_config: Config, masker: Masker) -> dict[str, str]:
    """Mask a merged configuration for the form: stored secrets become masks, newly typed ones stay."""
    masked_config = masker.mask(merged_config)
    return {
        key: form_config[key]
        if value == HIDDEN and now.get(key) != merged_config[key] and key in form_config
        else value
        for key, value in masked_config.items()
    }


@requires(
    GET=on_connector(Verb.EDIT, Verb.VIEW_CONFIG),
    POST=on_connector(Verb.EDIT, Verb.VIEW_CONFIG).writing(),
)
@require_http_methods(["GET", "HEAD", "POST"])
@ensure_csrf_cookie
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """Show each setting as a field, and the whole as JSON; both keep unknown settings. With `?mode=json`, the JSON is
    saved.
    """
    row = find(name)
    if request.method != "POST":
        return _page(request, row, Masker([row.class_name]).mask(row.settings), mode=request.GET.get("mode", ""))
    mode = str(request.POST.get("mode", ""))
    if "step" in request.POST:  # a transform button, used without JavaScript
        return _change_steps(request, row)
    if "test" in request.POST:  # without JavaScript
        return _test_connection(request, row)
    config: dict[str, str] | None = None
    try:
        base = _base(row, str(request.POST.get("version", "")))
        config = _parse_sent(request, row, base or {})
        if base != row.settings:
            return _stale(request, row, base, config, mode)
        connector_writes.configure(
            name, unmask(config, row.settings), principal_of(request), expected=row.config_offset, await_rows=False
        )
    except (ConnectError, Refusal) as error:
        status = record_failure(request, error)
        newer = find(name)
        if status == 409 and config is not None and newer.settings != row.settings:
            return _stale(request, newer, row.settings, config, mode)
        if is_fragment(request):
            return _render_refused(request, newer, config, error.message, status)
        return _page(request, newer, config, mode=mode, status=status, problem=error.message)
    address = f"/ui/connectors/{quote(name, safe='')}/config"
    if is_fragment(request):
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)


@requires(GET=on_connector(Verb.VIEW, Verb.VIEW_CONFIG))
@require_safe
def newer(request: HttpRequest, name: str) -> HttpResponse:
    """`?version=`: show an open form what was changed since it was loaded; nothing if nothing was."""
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    base = _base(row, request.GET.get("version", ""))
    context: dict[str, Any] = {"connector": row}
    if base is not None and base != row.settings:
        classes = {row.class_name, base.get("connector.class", "")}
        last = ConfigVersion.objects.filter(connector=name).order_by("-number").first()
        context |= {"diff": changes(base, row.settings, Masker(classes)), "last": last}
    return render(request, "ringfence/parts/edit_newer.html", context)


def _base(row: Connector, version: str) -> dict[str, str] | None:
    """Return the configuration at that offset of the config topic, which the form was loaded from; None if it is not
    kept.

    A resume writes the configuration again unchanged: the offset moves, and nothing is stale.
    """
    if version == str(row.config_offset):
        return row.settings
    if not (version.isascii() and version.isdigit() and len(version) < 19):
        return None
    versions = ConfigVersion.objects.filter(connector=row.name, config_offset__lte=int(version))
    newest = versions.order_by("-config_offset").first()
    return newest.settings if newest else None


def _parse_sent(request: HttpRequest, row: Connector, values: Mapping[str, str]) -> dict[str, str]:
    """Return the form's configuration, with untouched secrets as masks. Raises `ConnectError`.

    values: the values that the fields were filled with. An untouched field keeps its value exactly.
    """
    draft = draft_of(request.POST, values)
    if draft.name and draft.mode == "json":
        connector_writes.with_name(row.name, {"name": draft.name})
    config = {"name": values["name"]} if "name" in values else {}
    return {**config, **draft.config}


def _stale(
    request: HttpRequest, row: Connector, base: Mapping[str, str] | None, form_config: Mapping[str, str], mode: str
) -> HttpResponse:
    """Answer 409: show others' changes beside the form's, and the merged configuration to save instead."""
    now = row.settings
    old = now if base is None else base
    mine = fill_masks(form_config, old)
    masker = Masker({config.get("connector.class", "") for config in (old, now, mine)})
    text = "The configuration was changed while this form was open: nothing was saved."
    status = record_failure(request, Refusal(409, text))
    both = mask_again(merge(old, now, mine), now, form_config, masker)
    last = ConfigVersion.objects.filter(connector=row.name).order_by("-number").first()
    ways = three_way(old, now, mine, masker)
    return _page(request, row, both, mode=mode, status=status, stale=text, ways=ways, last=last, known=base is not None)


def _render_refused(
    request: HttpRequest, row: Connector, config: Mapping[str, str] | None, problem: str, status: int
) -> HttpResponse:
    """Show the errors for the open form: a link to each field, and the errors of each."""
    context: dict[str, Any] = {"problem": problem}
    if config is not None:
        context |= {**filling.form_context(request, _draft(row, config), ask_brokers=True), "slots": True}
        if context["wrong"]:
            context["problem"] = " ".join(context["layout"].rest)
    response = render(request, "ringfence/parts/new_outcome.html", context, status=status)
    response["HX-Retarget"] = "#outcome"
    return response


def _change_steps(request: HttpRequest, row: Connector) -> HttpResponse:
    try:
        config = filling.read_changed(request).config
    except ConnectError as error:
        return _page(request, row, None, mode="form", status=record_failure(request, error), problem=error.message)
    return _page(request, row, config, mode="form", loaded=str(request.POST.get("version", "")))


def _test_connection(request: HttpRequest, row: Connector) -> HttpResponse:
    try:
        context = test_context(request, read_posted(request))
    except (ConnectError, Refusal) as error:
        return _page(request, row, None, mode="form", status=record_failure(request, error), problem=error.message)
    loaded, config = str(request.POST.get("version", "")), context["draft"].config
    more = {name: context[name] for name in ("tested", "layout")}
    return _page(request, row, config, mode="form", loaded=loaded, **more)


def _draft(row: Connector, config: Mapping[str, str]) -> FormState:
    settings = {"connector.class": row.class_name, **config}
    settings.pop("name", None)
    return FormState(row.name, settings, of=row.name, editing=True)


def _page(
    request: HttpRequest, row: Connector, config: Mapping[str, str] | None, *, mode: str, status: int = 200, **more: Any
) -> HttpResponse:
    settings = config or {}
    context: dict[str, Any] = {
        "section": "connectors",
        "connector": row,
        "loaded": row.config_offset,
        "text": request.POST.get("json", "") if config is None else pretty(settings),
        "mode": "json" if mode == "json" or config is None else "form",
        **effect(row),
        **more,
    }
    draft = _draft(row, settings if config is not None else Masker([row.class_name]).mask(row.settings))
    context = {**filling.form_context(request, draft), **context, "draft": draft}
    template = "ringfence/parts/edit_form.html" if is_fragment(request) else "ringfence/edit.html"
    return render(request, template, context, status=status)
