"""Errors as Kafka Connect's clients expect them: always JSON with `error_code` and `message`, never an HTML page."""

import logging
from collections.abc import Sequence

from django.db import InterfaceError, OperationalError
from django.http import JsonResponse
from rest_framework import status
from rest_framework.exceptions import APIException
from rest_framework.response import Response

from ringfence.access.authorise import Forbidden
from ringfence.encryption import NoKey
from ringfence.requests.request import Refusal

_AWAY = (
    "The database does not answer ({error}). Running connectors are not affected. Check RINGFENCE_DATABASE_URL and "
    "that the database is up, then try again."
)
_FULL = (
    "The database cannot write: its disk is full. Nothing was changed, and running connectors are not affected. Make "
    "room on that disk, then try again."
)
_LOCKED = (
    "{doubt}The database is locked: another process has not finished a write, and may be frozen in it. Nothing was "
    "changed, and running connectors are not affected. Try again; if it happens again, look for a worker that does not "
    "report, and end or wake it."
)
_LOCKED_WORDS = "database is locked"
_LOCKED_SQLSTATE = "55P03"
_FULL_SQLSTATE = "53100"
_FULL_WORDS = ("database or disk is full", "No space left on device")


def explain_database_error(error: Exception) -> str:
    """Explain a database error without its own message, which may quote a statement's values."""
    cause = error.__cause__
    if getattr(cause, "sqlstate", "") == _FULL_SQLSTATE or any(words in str(error) for words in _FULL_WORDS):
        return _FULL
    if _LOCKED_WORDS in str(error) or getattr(cause, "sqlstate", "") == _LOCKED_SQLSTATE:
        # Not with the module, which each process that sets Django up loads: it loads the client of Redis.
        from ringfence.heartbeats.cluster_view import look

        doubt = look.vitals().refusal
        return _LOCKED.format(doubt=f"{doubt} " if doubt else "")
    return _AWAY.format(error=type(error).__name__)


RETRY_AFTER_SECONDS = "1"

log = logging.getLogger(__name__)


class ConnectError(APIException):
    """An error with a status and message as in Kafka Connect."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.message = message


def bad_request(message: str) -> ConnectError:
    return ConnectError(status.HTTP_400_BAD_REQUEST, message)


def invalid_config(errors: Sequence[str], count: int | None = None) -> ConnectError:
    """Refuse a configuration with Kafka Connect's message. count: the number of errors, by default all."""
    lines = "\n".join(errors)
    return bad_request(
        f"Connector configuration is invalid and contains the following {count or len(errors)} error(s):\n{lines}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


def not_found(message: str) -> ConnectError:
    return ConnectError(status.HTTP_404_NOT_FOUND, message)


def body(code: int, message: str) -> dict[str, object]:
    return {"error_code": code, "message": message}


def json_error(code: int, message: str) -> JsonResponse:
    return JsonResponse(body(code, message), status=code)


def handle(error: Exception, context: dict[str, object]) -> Response | None:
    """REST framework's exception handler. None lets Django log the error and answer with `handler500`."""
    match error:
        case Refusal():
            response = Response(body(error.status, error.message), status=error.status)
            if error.retry:
                response["Retry-After"] = RETRY_AFTER_SECONDS
            return response
        case Forbidden():
            return Response(body(403, error.message), status=403)
        case OperationalError() | InterfaceError():
            log.error("The database does not answer: %s", error)
            message = explain_database_error(error)
            return Response(body(503, message), status=503, headers={"Retry-After": RETRY_AFTER_SECONDS})
        case NoKey():
            log.error("%s", error)
            return Response(body(503, f"{error}. Running connectors are not affected."), status=503)
        case APIException():
            code = error.status_code
            headers = {"Allow": ", ".join(_allowed_methods(context))} if code == 405 else {}
            message = error.message if isinstance(error, ConnectError) else f"HTTP {code} {error.detail}"
            return Response(body(code, message), status=code, headers=headers)
        case _:
            return None


def _allowed_methods(context: dict[str, object]) -> list[str]:
    allowed = getattr(context.get("view"), "allowed_methods", [])
    return [str(method) for method in allowed]
