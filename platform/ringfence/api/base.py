"""What every view of the API shares: content types as Kafka Connect accepts them, flags, and strict parsing of request
bodies. It accepts what Kafka Connect's Jackson accepts, and answers 400 with a reason otherwise.

Numbers keep their source text (`1.50` stays `1.50`), because every configuration value is a string in the end.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.views import APIView

from ringfence.access.authorise import Need, authorise, authorise_everywhere, principal_of
from ringfence.access.principal import Principal, Verb
from ringfence.audit.trail import record_change
from ringfence.http.errors import bad_request, invalid_config
from ringfence.http.masking import has_mask

MAX_CONFIG_BYTES = 700_000
"""Bytes. A configuration must fit into one record of the config topic, which is a third larger if it is encrypted."""
MAX_SETTINGS = 2_000


class Number(str):
    """A JSON number with its source text."""

    __slots__ = ()


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def read(raw: bytes, what: str = "The request body") -> object:
    """Return the JSON value of a body; None for an empty one. Raises a 400 that names `what` for invalid JSON."""
    if not raw.strip():
        return None
    try:
        text = raw.decode("utf-8")
        value: object = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise bad_request(f"{what} is not valid JSON: {error}") from error
    return value


def object_of(value: object, what: str) -> dict[str, object]:
    """Return the value as an object. Raises a 400 that names `what` for any other type."""
    if not isinstance(value, dict):
        raise bad_request(f"{what} must be a JSON object.")
    return value


def text_of(value: object, what: str) -> str:
    """Return a scalar as text: true and false as in JSON, numbers as written. Raises a 400 for null and
    nested values.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return str(value)
        case None:
            raise bad_request(null_error(what))
        case _:
            raise bad_request(f"The value of {what} must be a string, a number or a boolean, not a nested value.")


def config_of(value: object) -> dict[str, str]:
    """Return a connector configuration: a flat object of strings, within the size limit."""
    config = config_with_nulls(value)
    if nulls := [key for key, item in config.items() if item is None]:
        raise invalid_config([null_error(key) for key in nulls])
    return {key: item for key, item in config.items() if item is not None}


def config_with_nulls(value: object) -> dict[str, str | None]:
    """Return the same, but with nulls, which the validation refuses."""
    settings = object_of(value, "The connector configuration")
    config = {key: None if item is None else text_of(item, key) for key, item in settings.items()}
    check_size({key: item or "" for key, item in config.items()})
    return config


def null_error(setting: str) -> str:
    """Return the validation's error for a null."""
    return f"Null value can not be supplied as the configuration value for {setting}."


def check_size(config: Mapping[str, str]) -> None:
    """Refuse a configuration that is too large for the config topic, or has too many settings to validate."""
    if len(config) > MAX_SETTINGS:
        raise bad_request(
            f"The connector configuration has {len(config):,} settings, and may have {MAX_SETTINGS:,} at most."
        )
    size = len(json.dumps(config, ensure_ascii=False).encode())
    if size > MAX_CONFIG_BYTES:
        raise bad_request(
            f"The connector configuration has {size:,} bytes; at most {MAX_CONFIG_BYTES:,} fit into the config topic."
        )


def plain(value: object) -> object:
    """Return the value with Python numbers, for source partitions and offsets, whose types matter."""
    match value:
        case Number():
            try:
                return int(value)
            except ValueError:
                return float(value)
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case _:
            return value


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
        return read(self.raw_body)

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
