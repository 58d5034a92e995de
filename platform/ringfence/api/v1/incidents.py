"""`/api/v1/alerts/incidents/<number>` and `/silences`: acknowledge an incident, or silence a connector."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import Forbidden
from ringfence.access.principal import Verb
from ringfence.access.routes import somewhere
from ringfence.alerts import incident_report
from ringfence.alerts.incident_report import incidents
from ringfence.alerts.models import Incident, now_ms
from ringfence.api.v1.alert_shapes import IncidentShape
from ringfence.api.v1.base import V1View
from ringfence.api.v1.listing import ListView, equal
from ringfence.api.v1.request_fields import IntegerField, ReasonField, RequestShape, StringField
from ringfence.audit.trail import record_change
from ringfence.http.errors import bad_request, not_found

_READS, _WRITES = somewhere(Verb.VIEW), somewhere(Verb.OPERATE).writing()


class SilenceShape(serializers.Serializer[Any]):
    """`connector`: "" for all connectors and the cluster; `until_ms`: nothing is sent until then."""

    id = serializers.IntegerField(read_only=True)
    connector = serializers.CharField(allow_blank=True)
    until_ms = serializers.IntegerField()
    created_ms = serializers.IntegerField()
    user = serializers.CharField()
    why = serializers.CharField()


class SilenceRequestShape(RequestShape):
    """`hours`: at most a week; `reason`: shown on the page, and kept in the audit trail."""

    connector = StringField(
        allow_blank=True,
        trim_whitespace=False,
        refusal='must be the name of a connector, or "" for all connectors and the cluster',
    )
    hours = IntegerField(min_value=1, max_value=incident_report.LONGEST_HOURS)
    reason = ReasonField()


class _OnIncidents(V1View):
    def require_operate(self, connector: str) -> None:
        """Raise `Forbidden` without the permission. The audit entry is about the incident or silence,
        not the connector.
        """
        if not incident_report.may_operate(self.principal, connector):
            raise Forbidden(self.principal, Verb.OPERATE, connector or None)


class AlertIncident(_OnIncidents):
    """One incident, open or resolved."""

    access = {"GET": _READS}
    shape = IncidentShape

    def get(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        return Response(IncidentShape(_incident(self, number)).data)


class AlertIncidentAcknowledgement(_OnIncidents):
    """Acknowledge the incident. Only the first acknowledgement counts; later ones change nothing."""

    access = {"POST": _WRITES}
    shape = IncidentShape

    def post(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        one = _incident(self, number)
        self.require_operate(one.connector)
        if (after := incident_report.acknowledge(one, self.principal)) is not None:
            record_change(self.http_request, before=None, after=after, action="acknowledge incident")
        return Response(IncidentShape(one).data)


class AlertSilences(ListView, _OnIncidents):
    """The active silences; POST creates one."""

    access = {"GET": _READS, "POST": _WRITES}
    shape = SilenceShape
    takes = {"POST": SilenceRequestShape}
    codes = {"POST": 201}
    filters = {"connector": equal("connector")}
    orders = {"until_ms": "until_ms", "created_ms": "created_ms"}

    def rows(self, **path: Any) -> QuerySet[Any]:
        rows = incident_report.in_force(now_ms())
        if self.principal.may_everywhere(Verb.VIEW):
            return rows
        return rows.filter(Q(connector="") | self.principal.query(Verb.VIEW, "connector"))

    def serialize(self, rows: Iterable[Any]) -> list[Any]:
        return list(rows)

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        self.require_operate(fields["connector"])
        try:
            silence = incident_report.silence(fields["connector"], fields["hours"], fields["reason"], self.principal)
        except ValueError as error:
            raise bad_request(str(error)) from error
        record_change(
            self.http_request, before=None, after=incident_report.audit_data(silence), action="silence alerts"
        )
        return Response(SilenceShape(silence).data, status=201)


class AlertSilence(_OnIncidents):
    """DELETE ends it: messages are sent again."""

    access = {"DELETE": _WRITES}
    shape = SilenceShape
    codes = {"DELETE": 204}

    def delete(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        silence = incident_report.in_force(now_ms()).filter(pk=number).first()
        if silence is None:
            raise not_found(f"No silence {number} is in force: GET /api/v1/alerts/silences lists them")
        self.require_operate(silence.connector)
        record_change(
            self.http_request, before=incident_report.audit_data(silence), after=None, action="end silence of alerts"
        )
        incident_report.end(silence)
        return Response(status=204)


def _incident(view: V1View, number: int) -> Incident:
    one = incidents(view.principal).filter(pk=number).first()
    if one is None:
        raise not_found(f"There is no incident {number}: GET /api/v1/alerts/incidents lists them")
    return one
