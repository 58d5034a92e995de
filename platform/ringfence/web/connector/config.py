"""The Config tab: the configuration, every version with author and time, their differences, and the rollback to one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api import connector_writes
from ringfence.dispatch import Refusal
from ringfence.history.models import ConfigVersion
from ringfence.http.errors import ConnectError
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, SourceOffset, Task, find_connector
from ringfence.web.connector.config_diff import Change, changes
from ringfence.web.connector.tab_page import record_failure, render_confirmation, render_done, tab
from ringfence.web.connector.transaction_lanes import open_now
from ringfence.web.views import find, render_gone

PAGE_SIZE = 20
CHOICES = 200
"""Versions that the two menus of the comparison offer. The address can name any other."""


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version in the list. changed: settings that differ from the previous version; None if that one is not kept."""

    row: ConfigVersion
    current: bool
    same: bool
    changed: int | None


@tab("config", Verb.VIEW_CONFIG, still=True)
def config(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """`?page=` of the versions. `?from=3&to=5` compares two; without `to`, with the current configuration."""
    settings = row.settings
    versions = ConfigVersion.objects.filter(connector=row.name).order_by("-number")
    page: Page[ConfigVersion] = Paginator(versions, PAGE_SIZE).get_page(request.GET.get("page", ""))
    masked_settings = Masker([row.class_name]).mask(settings)
    first = ("name", "connector.class")
    return {
        "config": sorted(masked_settings.items(), key=lambda item: (item[0] not in first, item[0])),
        "config_json": json.dumps(masked_settings, indent=2, ensure_ascii=False, sort_keys=True),
        "page": page,
        "versions": _list_versions(list(page), versions, settings),
        "numbers": list(versions.values_list("number", flat=True)[:CHOICES]),
        **_compare(row, request.GET.get("from", ""), request.GET.get("to", "")),
    }


def _list_versions(rows: Sequence[ConfigVersion], versions: Any, settings: dict[str, str]) -> list[ListedVersion]:
    older = versions.filter(number__lt=rows[-1].number).first() if rows else None
    newest = versions.values_list("number", flat=True).first()
    lines = []
    for row, before in zip(rows, [*rows[1:], older], strict=True):
        mine, old = row.settings, before.settings if before else None
        changed = None if old is None else sum(mine.get(key) != old.get(key) for key in mine.keys() | old.keys())
        same = mine == settings
        lines.append(ListedVersion(row, same and row.number == newest, same, changed))
    return lines


def _version(row: Connector, text: str) -> ConfigVersion | None:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        return None
    return ConfigVersion.objects.filter(connector=row.name, number=int(text)).first()


def _compare(row: Connector, before: str, after: str) -> dict[str, Any]:
    """Return the requested comparison. `missing` names the version that does not exist."""
    if not before:
        return {}
    old, new = _version(row, before), _version(row, after) if after else None
    if old is None or (after and new is None):
        return {"missing": before if old is None else after, "from": before, "to": after}
    then, now = old.settings, new.settings if new else row.settings
    masker = Masker({then.get("connector.class", ""), now.get("connector.class", "")})
    return {"diff": changes(then, now, masker), "from": old.number, "to": new.number if new else ""}


def effect(row: Connector) -> dict[str, int]:
    """Return the impact of a new configuration on the running tasks, in numbers."""
    tasks = list(Task.objects.filter(connector=row.name, known=True))
    return {"tasks": 0 if row.target == "STOPPED" else len(tasks), "open": sum(open_now(task) for task in tasks)}


def differences(row: Connector, version: ConfigVersion) -> list[Change]:
    """Return what a rollback to that version would change now."""
    now, then = row.settings, version.settings
    return changes(now, then, Masker({now.get("connector.class", ""), then.get("connector.class", "")}))


@requires(
    GET=on_connector(Verb.EDIT, Verb.VIEW_CONFIG),
    POST=on_connector(Verb.EDIT, Verb.VIEW_CONFIG).writing(),
)
@require_http_methods(["GET", "HEAD", "POST"])
def rollback(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Confirm the rollback, with its impact in numbers; then carry it out. The form names the configuration that it was
    shown for.
    """
    row = find_connector(name)
    version = _version(row or Connector(name=name), str(number))
    if version is None:
        return render_gone(request, name)
    if row is None:
        return _create_again(request, name, version)
    if request.method != "POST":
        return _ask(request, row, version)
    try:
        if request.POST.get("version") != str(row.config_offset):
            raise Refusal(409, "The configuration was changed in between. Below is what going back would change now.")
        connector_writes.configure(name, version.settings, principal_of(request), expected=row.config_offset)
    except (ConnectError, Refusal) as error:
        status = record_failure(request, error)
        return _ask(request, find(name), version, status, problem=error.message)
    tasks = effect(row)["tasks"]
    text = f"Version {number} is the current configuration again."
    hint = "Its tasks start as a new generation, at the last committed offset." if tasks else ""
    return render_done(request, row, text, "config", hint=hint)


def _create_again(request: HttpRequest, name: str, version: ConfigVersion) -> HttpResponse:
    """Confirm creating a deleted connector again; then create it, with the offsets that were kept."""
    row = Connector(name=name)
    context: dict[str, Any] = {"wanted": version, "diff": differences(row, version)}
    context["offsets"] = SourceOffset.objects.filter(connector=name).count()
    if request.method != "POST":
        return render_confirmation(request, row, "again", context)
    state = "STOPPED" if request.POST.get("stopped") else "RUNNING"
    try:
        connector_writes.create(name, version.settings, state, principal_of(request))
    except (ConnectError, Refusal) as error:
        return render_confirmation(
            request, row, "again", {**context, "problem": error.message}, record_failure(request, error)
        )
    return render_done(request, find(name), f"It was created again, as in version {version.number}.", "config")


def _ask(request: HttpRequest, row: Connector, version: ConfigVersion, status: int = 200, **more: Any) -> HttpResponse:
    context = {"wanted": version, "loaded": row.config_offset, "diff": differences(row, version), **effect(row), **more}
    return render_confirmation(request, row, "rollback", context, status)


urlpatterns = [path("", config)]
