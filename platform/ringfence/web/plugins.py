"""The page that installs plugins on all workers, and shows the progress on each."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_http_methods, require_POST

from ringfence.access.authorise import everywhere, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.v1 import plugin_installations as installations
from ringfence.audit.trail import record_change
from ringfence.history.models import PluginInstallation
from ringfence.http.errors import ConnectError
from ringfence.web.state_badges import Badge, Severity
from ringfence.web.views import is_fragment

_INSTALLER = everywhere(Verb.INSTALL_PLUGINS)
_MOST_ROWS: Final = 20
_LOOKS: Final = {
    "waiting": Badge("Waiting", "hourglass", Severity.REST, "The worker has not started on it yet."),
    "running": Badge("Installing", "loader", Severity.MOTION, "The worker fetches and unpacks it."),
    "done": Badge("Installed", "circle-check", Severity.OK, "The worker has it."),
    "failed": Badge("Failed", "circle-x", Severity.BAD, "Nothing of it is left on the worker."),
}


@requires(GET=_INSTALLER, POST=_INSTALLER.writing())
@require_http_methods(["GET", "HEAD", "POST"])
@ensure_csrf_cookie
def plugins(request: HttpRequest) -> HttpResponse:
    """Show the form, and the newest installations. POST `plugin`, a name, installs one; files are uploaded through the
    API. `class`: the connector that it is installed for, whose form follows the installation (`for`, its number).
    """
    if request.method != "POST":
        return _page(request, _follow(request))
    name = request.POST.get("plugin", "").strip()
    try:
        row = installations.begin(name, principal_of(request).name)
    except ConnectError as error:
        return _page(request, {"problem": error.message, "wanted": name}, status=error.status_code)
    record_change(request, before=None, after={"plugin": row.plugin, "sha256": ""}, action="install plugin")
    class_name = request.POST.get("class", "").strip()
    query = f"?{urlencode({'for': row.pk, 'class': class_name})}" if class_name else ""
    return HttpResponseRedirect(f"/ui/plugins{query}")


@requires(POST=_INSTALLER.writing())
@require_POST
def cancel_installation(request: HttpRequest, number: int) -> HttpResponse:
    """Cancel an installation: workers that join later do not install it. Where it is installed, it stays."""
    return _change(request, number, "cancel plugin installation", PluginInstallation.delete)


@requires(POST=_INSTALLER.writing())
@require_POST
def retry(request: HttpRequest, number: int) -> HttpResponse:
    """Retry on the workers where it failed."""
    return _change(request, number, "retry plugin installation", installations.retry)


def _change(
    request: HttpRequest, number: int, action: str, change: Callable[[PluginInstallation], object]
) -> HttpResponse:
    try:
        row = installations.find(number)
    except ConnectError as error:
        return _page(request, {"problem": error.message}, status=error.status_code)
    record_change(request, before={"plugin": row.plugin, "sha256": row.sha256}, after=None, action=action)
    change(row)
    return HttpResponseRedirect("/ui/plugins")


def _follow(request: HttpRequest) -> dict[str, Any]:
    """Return which installation the page follows, and to which form; nothing where it follows none."""
    number, class_name = request.GET.get("for", ""), request.GET.get("class", "")
    if not (number.isascii() and number.isdigit() and class_name):
        return {}
    return {"followed": int(number), "query": urlencode({"for": number, "class": class_name}), "class_name": class_name}


def _page(request: HttpRequest, more: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    more = more or {}
    rows = installations.serialize(PluginInstallation.objects.order_by("-pk")[:_MOST_ROWS])
    for row in rows:
        for share in row["workers"]:
            share["look"] = _LOOKS[share["state"]]
        row["classes"] = sorted({name for share in row["workers"] for name in share["connectors"]})
        if is_fragment(request) and row["id"] == more.get("followed") and row["state"] == "done":
            return HttpResponse(status=204, headers={"HX-Redirect": f"/ui/new?class={quote(more['class_name'])}"})
    context: dict[str, Any] = {
        "section": "new",
        "installations": rows,
        "moving": any(row["state"] in ("receiving", "running") for row in rows),
        "takers": installations.takers(),
        "are_workers_starting": installations.are_workers_starting(),
        "most_bytes": installations.MOST_BYTES,
        "piece_bytes": installations.MOST_PIECE,
        **more,
    }
    template = "ringfence/parts/plugins.html" if is_fragment(request) else "ringfence/plugins.html"
    return render(request, template, context, status=status)
