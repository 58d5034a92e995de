"""All routes of the HTTP port. Those of the demo exist only if `ringfence demo` has started this process."""

from django.conf import settings
from django.urls import URLPattern, include, path, re_path

from ringfence.demo.kill_button import kill_worker
from ringfence.metrics.views import metrics
from ringfence.web.handbook import pages as handbook
from ringfence.web.hooks.views import hook
from ringfence.web.old_addresses import redirect_old

_demo: list[URLPattern] = [path("ui/demo/kill-worker", kill_worker)] if settings.DEMO_RUN_FOLDER else []

urlpatterns = [
    *_demo,
    path("ui/incidents", include("ringfence.web.incidents")),
    path("ui/", include("ringfence.console.urls")),
    path("ui", include("ringfence.web.urls")),
    re_path(r"^(?P<address>(?:console|ui/alerts)(?:/.*)?)$", redirect_old),
    path("docs", handbook.lead),
    path("docs/<name:name>", handbook.lead),
    path("metrics", metrics),
    path("hooks/<name:name>", hook),
    path("", include("ringfence.api.urls")),
]

handler400 = "ringfence.http.error_pages.bad_request"
handler403 = "ringfence.http.error_pages.forbidden"
handler404 = "ringfence.http.error_pages.not_found"
handler500 = "ringfence.http.error_pages.server_error"
