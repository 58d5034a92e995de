"""What every view of the API shares: content types as Kafka Connect accepts them, bodies, flags."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.views import APIView

from ringfence.access.authorise import Need, authorise, authorise_everywhere, principal_of
from ringfence.access.principal import Principal, Verb
from ringfence.api import jsonbody
from ringfence.audit.trail import record_change
from ringfence.http.masking import has_mask


def options_response(methods: Iterable[str]) -> HttpResponse:
    """Return the answer to OPTIONS."""
    text = ", ".join(methods)
    return HttpResponse(text, content_type="text/plain", headers={"Allow": text})


class ConnectView(APIView):
    """A view of the API. `access` declares the permissions of each method, and `AccessMiddleware` checks them.

    It is exempt from Django's CSRF check, which tokens do not need; the middleware does that check for sessions.
    """

    access: Mapping[str, Need] = {}
    http_request: HttpRequest
    """Django's request, which the middleware and the audit trail use. `self.request`, REST framework's, wraps it."""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.http_request = request

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in ("POST", "PUT", "PATCH", "DELETE"):
            declared = request.headers.get("Content-Type", "")
            media_type = declared.partition(";")[0].strip().lower()
            if media_type != "application/json" and (media_type or self.raw_body):
                raise UnsupportedMediaType(declared or "none")

    def options(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:  # type: ignore[override]
        """Return the methods in the format of Kafka Connect's server."""
        return options_response(self.allowed_methods)

    @property
    def raw_body(self) -> bytes:
        """The body as Django reads it. REST framework treats a body without a Content-Length as empty."""
        return self.http_request.body

    def json_body(self) -> object:
        """Return the body as JSON, None if it is empty."""
        return jsonbody.read(self.raw_body)

    def flag(self, name: str, default: bool = False) -> bool:
        """Parse a boolean of the query as Java does: `true` in any case, everything else is false; the
        first value counts.
        """
        values = self.request.query_params.getlist(name)
        return values[0].lower() == "true" if values else default

    @property
    def principal(self) -> Principal:
        return principal_of(self.http_request)

    @property
    def user_name(self) -> str:
        return self.principal.name

    def authorise(self, verb: Verb, connector: str) -> None:
        """Check a permission on a connector that the path does not name. Raises `Forbidden`, a 403."""
        authorise(self.http_request, verb, connector)

    def authorise_everywhere(self, verb: Verb) -> None:
        """Check a permission on every connector. Raises `Forbidden`, a 403."""
        authorise_everywhere(self.http_request, verb)

    def tell(self, *, before: object, after: object) -> None:
        """Set the before and after of the audit entry, for a write that concerns no connector."""
        record_change(self.http_request, before=before, after=after)

    def authorise_masks(self, config: Mapping[str, str]) -> None:
        """Require the permissions to read and change the stored configuration if there are masks, which stand for its
        values.
        """
        if has_mask(config):
            self.authorise(Verb.EDIT, config.get("name", ""))
            self.authorise(Verb.VIEW_CONFIG, config.get("name", ""))
