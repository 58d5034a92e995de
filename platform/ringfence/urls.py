"""All routes of the one HTTP port."""

from django.urls import include, path

from ringfence.console.site import site
from ringfence.console.views import bare
from ringfence.metrics.views import metrics

urlpatterns = [
    path("ui/alerts", include("ringfence.alerts.urls")),
    path("ui", include("ringfence.web.urls")),
    path("console", bare),
    path("console/", site.urls),
    path("metrics", metrics),
    path("", include("ringfence.api.urls")),
]

handler400 = "ringfence.web.errors.bad_request"
handler403 = "ringfence.web.errors.forbidden"
handler404 = "ringfence.web.errors.not_found"
handler500 = "ringfence.web.errors.server_error"
