"""`/api/v1/grants`: what accounts may do, on which connectors. Grants by groups of the identity provider are shown, and
changed there.
"""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import everywhere
from ringfence.access.models import Grant
from ringfence.access.principal import Verb
from ringfence.api.v1.base import ListView, V1View, equal, flag
from ringfence.api.v1.request_fields import IntegerField, ListField, RequestShape, StringField
from ringfence.audit import accounts
from ringfence.audit.accounts import AuditCallback
from ringfence.audit.trail import record_change
from ringfence.fencing.name_patterns import EVERYTHING
from ringfence.http.errors import ConnectError, bad_request, not_found
from ringfence.requests.quota import QUOTAS, UNLIMITED

_READS, _WRITES = everywhere(Verb.ADMIN), everywhere(Verb.ADMIN).writing()


def _quota_field() -> IntegerField:
    return IntegerField(min_value=0, max_value=UNLIMITED, required=False, allow_null=True)


class GrantShape(RequestShape):
    """`allow`: roles and permissions; `pattern`: of connectors; `topics`: patterns of those that they may write to;
    `connectors`, `tasks`, `config_bytes`: quotas, null for the default; `by_groups`: comes from the identity provider.
    """

    id = serializers.IntegerField(read_only=True)
    account = StringField(max_length=150)
    allow = ListField(child=StringField(), max_length=100, refusal="must be a list of roles and permissions")
    pattern = StringField(max_length=300, default=EVERYTHING)
    topics = ListField(
        child=StringField(max_length=300),
        max_length=1000,
        default=lambda: [EVERYTHING],
        refusal="must be a list of at most 1,000 patterns of up to 300 characters",
    )
    connectors = _quota_field()
    tasks = _quota_field()
    config_bytes = _quota_field()
    by_groups = serializers.BooleanField(read_only=True)


def describe(row: Grant) -> dict[str, Any]:
    """Return the format of this API."""
    return {
        "id": row.pk,
        "account": row.user.get_username(),
        "allow": row.what.split(),
        "pattern": row.pattern,
        "topics": row.topics.split(),
        **{name: getattr(row, name) for name in QUOTAS},
        "by_groups": row.by_groups,
    }


def _tells(request: HttpRequest) -> AuditCallback:
    def tell(action: str, account: str, *, before: object = None, after: object = None) -> None:
        was, now = {"account": account, "was": before}, {"account": account, "is": after}
        record_change(request, before=was, after=now, action=action)

    return tell


class Grants(ListView):
    """All grants. POST grants; the same roles on the same pattern are replaced."""

    access = {"GET": _READS, "POST": _WRITES}
    shape = GrantShape
    takes = {"POST": GrantShape}
    codes = {"POST": 201}
    filters = {"account": equal("user__username"), "pattern": equal("pattern"), "by_groups": flag("by_groups")}
    orders = {"account": "user__username", "pattern": "pattern"}

    def rows(self, **path: Any) -> QuerySet[Any]:
        return Grant.objects.select_related("user")

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [describe(row) for row in rows]

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        quotas = {name: fields[name] for name in QUOTAS if fields.get(name) is not None}
        try:
            user = accounts.find(fields["account"])
            row = accounts.grant(
                user.username,
                fields["allow"],
                fields["pattern"],
                fields["topics"],
                quotas=quotas,
                tell=_tells(self.http_request),
            )
        except ValueError as error:
            raise bad_request(f"{error}.") from error
        return Response(describe(row), status=201, headers={"Location": f"/api/v1/grants/{row.pk}"})


class GrantOf(V1View):
    """One grant. DELETE revokes it, from the account's next request on."""

    access = {"GET": _READS, "DELETE": _WRITES}
    shape = GrantShape
    codes = {"DELETE": 204}

    def get(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        return Response(describe(_grant(number)))

    def delete(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = _grant(number)
        try:
            accounts.revoke_grant(row, tell=_tells(self.http_request))
        except ValueError as error:
            raise ConnectError(409, f"{error}.") from error
        return Response(status=204)


def _grant(number: int) -> Grant:
    row = Grant.objects.select_related("user").filter(pk=number).first()
    if row is None:
        raise not_found(f"There is no grant {number}")
    return row
