"""`/api/v1/sessions`: the browser sessions; each can be ended."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access import sessions
from ringfence.access.authorise import WHOLE
from ringfence.access.models import LoginSession
from ringfence.access.principal import Verb
from ringfence.api.v1.base import ListView, V1View, equal
from ringfence.audit.trail import record_change
from ringfence.http.errors import not_found


class SessionShape(serializers.Serializer[Any]):
    """`via`: how it was begun; `seen_ms`: its last use, to a minute; `current`: the session of this request."""

    id = serializers.IntegerField()
    account = serializers.CharField()
    via = serializers.CharField()
    address = serializers.CharField()
    agent = serializers.CharField()
    created_ms = serializers.IntegerField()
    seen_ms = serializers.IntegerField()
    current = serializers.BooleanField()


class Sessions(ListView):
    """Your own sessions; all users' with `admin` everywhere."""

    access = {"GET": WHOLE}
    shape = SessionShape
    filters = {"account": equal("account")}
    orders = {"seen_ms": "seen_ms", "created_ms": "created_ms", "account": "account"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        return sessions.visible_to(self.principal, self.principal.may_everywhere(Verb.ADMIN))

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        fields = ("id", "account", "via", "address", "agent", "created_ms", "seen_ms")
        return [
            {
                **{field: getattr(row, field) for field in fields},
                "current": sessions.is_current(row, self.http_request),
            }
            for row in rows
        ]


class SessionOf(V1View):
    """End one of your own sessions, or any with `admin` everywhere."""

    access = {"DELETE": WHOLE.writing()}
    shape = SessionShape
    codes = {"DELETE": 204}

    def delete(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        rows = sessions.visible_to(self.principal, self.principal.may_everywhere(Verb.ADMIN))
        row: LoginSession | None = rows.filter(pk=number).first()
        if row is None:
            raise not_found(f"There is no session {number}: it may have ended")
        before = {"account": row.account, "address": row.address}
        record_change(self.http_request, before=before, after=None, action="end session")
        sessions.end(row)
        return Response(status=204)


class EndedShape(serializers.Serializer[Any]):
    """How many sessions were ended."""

    ended = serializers.IntegerField()


class OtherSessions(V1View):
    """End all of your own sessions except that of this request; with a token, all of them."""

    access = {"DELETE": WHOLE.writing()}
    shape = EndedShape

    def delete(self, request: Request) -> Response:
        self.parse_parameters()
        count = sessions.end_others(self.principal, self.http_request)
        before = {"account": self.principal.name, "sessions": count}
        record_change(self.http_request, before=before, after=None, action="end sessions")
        return Response({"ended": count})
