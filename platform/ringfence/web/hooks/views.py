"""Django's route for `/hooks/<connector>`. Requests are answered before they reach Django (`web.hooks.receiver`)."""

from django.http import HttpRequest, HttpResponse

from ringfence.access.authorise import PUBLIC, requires


@requires(POST=PUBLIC)
def hook(request: HttpRequest, name: str) -> HttpResponse:
    """Reached only without the ASGI handler, which holds the connections to tasks."""
    return HttpResponse("Webhooks are received by ringfence web only.\n", status=503, content_type="text/plain")
