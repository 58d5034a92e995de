"""`/hooks/<connector>` as Django knows it: the route is answered before Django (`web.hooks.receiver`)."""

from django.http import HttpRequest, HttpResponse

from ringfence.access.routes import PUBLIC, requires


@requires(POST=PUBLIC)
def hook(request: HttpRequest, name: str) -> HttpResponse:
    """Only reached where the site runs without the ASGI handler, which has the connections to tasks."""
    return HttpResponse("Webhooks are received by ringfence web only.\n", status=503, content_type="text/plain")
