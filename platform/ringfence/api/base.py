"""What every view of the API shares: content types as Kafka Connect takes them, bodies, flags."""

from collections.abc import Iterable
from typing import Any

from django.http import HttpResponse
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.views import APIView

from ringfence.api import jsonbody


def allowed(methods: Iterable[str]) -> HttpResponse:
    """The answer to OPTIONS."""
    text = ", ".join(methods)
    return HttpResponse(text, content_type="text/plain", headers={"Allow": text})


class ConnectView(APIView):
    """A view at the root of the port. CSRF does not apply: `AccessMiddleware` refuses other sites' pages."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in ("POST", "PUT", "PATCH", "DELETE"):
            declared = request.headers.get("Content-Type", "")
            media_type = declared.partition(";")[0].strip().lower()
            if media_type != "application/json" and (media_type or self.raw_body):
                raise UnsupportedMediaType(declared or "none")

    def options(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:  # type: ignore[override]
        """The methods, as Kafka Connect's server tells them."""
        return allowed(self.allowed_methods)

    @property
    def raw_body(self) -> bytes:
        """Django's own reading of the body: DRF takes one without a Content-Length for empty."""
        return self.request._request.body

    def json_body(self) -> object:
        """The body as JSON, None where it is empty."""
        return jsonbody.read(self.raw_body)

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean of the query, as Java reads it: `true` in any case, all else is false; the first one counts."""
        values = self.request.query_params.getlist(name)
        return values[0].lower() == "true" if values else default

    @property
    def user_name(self) -> str:
        return str(getattr(self.request._request, "ringfence_user", ""))
