"""All routes of the HTTP port. Those of the demo exist only if `ringfence demo` has started this process."""

from django.conf import settings
from django.urls import URLPattern, include, path

from ringfence.console.views import bare
from ringfence.demo.kill_button import kill_worker
from ringfence.metrics.views import metrics
from ringfence.web.handbook import pages as handbook
from ringfence.web.hooks.views import hook

_demo: list[URLPattern] = [path("ui/demo/kill-worker", kill_worker)] if settings.DEMO_RUN_FOLDER else []

urlpatterns = [
    *_demo,
    path("ui/alerts", include("ringfence.web.alert_urls")),
    path("ui", include("ringfence.web.urls")),
    path("console", bare),
    path("console/", include("ringfence.console.urls")),
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
