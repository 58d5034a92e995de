"""`/api/v1/alerts/*`: rules, destinations (write-only secrets) and their test, incidents, silences, deliveries."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.db.models import Q, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import Forbidden, everywhere, somewhere
from ringfence.access.principal import Verb
from ringfence.alerts import incident_report, rule_editing, tasks
from ringfence.alerts.conditions import Kind
from ringfence.alerts.incident_report import incidents
from ringfence.alerts.models import Delivery, Destination, Incident, Rule, now_ms
from ringfence.alerts.senders import CHANNELS
from ringfence.api.v1.base import ListView, V1View, either, equal, flag, since, until
from ringfence.api.v1.request_fields import (
    FlagField,
    IntegerField,
    ListField,
    OneOfField,
    QueryShape,
    ReasonField,
    RequestShape,
    StringField,
)
from ringfence.audit.trail import record_change
from ringfence.http.errors import bad_request, not_found


class RuleShape(RequestShape):
    """`kind`: failed, stalled, bad-records, open-transaction, source-metric, fencing-failed, topic-lost,
    foreign-record, no-leader; `seconds`: how long it must last."""

    id = serializers.IntegerField(read_only=True)
    name = StringField(max_length=100)
    kind = OneOfField(choices=[kind.value for kind in Kind])
    pattern = StringField(max_length=300, default="*")
    seconds = IntegerField(min_value=0, max_value=rule_editing.LONGEST_SECONDS, default=60)
    enabled = FlagField(default=True)
    destinations = ListField(child=StringField(), default=list, refusal="must be a list of their names")


class DestinationShape(RequestShape):
    """`kind`: webhook, slack, teams, pagerduty, opsgenie, mail. `url` and `secret` are masked; a mask that is sent back
    keeps the stored value. `differs`: only in the answer to a dry run.
    """

    id = serializers.IntegerField(read_only=True)
    name = StringField(max_length=100)
    kind = OneOfField(choices=list(CHANNELS))
    url = StringField(max_length=2000, allow_blank=True, required=False)
    secret = StringField(allow_blank=True, allow_null=True, required=False, trim_whitespace=False)
    recipients = ListField(child=StringField(allow_blank=True), allow_null=True, required=False)
    enabled = FlagField(default=True)
    differs = serializers.BooleanField(read_only=True, required=False)


class DryRunShape(QueryShape):
    dry_run = FlagField(default=False)


class IncidentShape(serializers.Serializer[Any]):
    """`began_ms`: of the first failure; `resolved_ms`, `acknowledged_ms`: 0 until then; `withheld`: silenced."""

    id = serializers.IntegerField()
    rule = serializers.CharField(source="rule_name")
    kind = serializers.CharField()
    subject = serializers.CharField()
    connector = serializers.CharField()
    summary = serializers.CharField()
    began_ms = serializers.IntegerField()
    failures = serializers.IntegerField()
    acknowledged_ms = serializers.IntegerField()
    acknowledged_by = serializers.CharField()
    withheld = serializers.BooleanField()
    opened_ms = serializers.IntegerField()
    resolved_ms = serializers.IntegerField()


class DeliveryShape(serializers.Serializer[Any]):
    """`state`: waiting, under way, sent, given up; `due_ms`: the next try; `status`: of the last answer, or 0."""

    id = serializers.IntegerField()
    incident = serializers.IntegerField(source="incident_id", allow_null=True)
    destination = serializers.CharField(source="destination_name")
    what = serializers.CharField()
    state = serializers.CharField()
    tries = serializers.IntegerField()
    created_ms = serializers.IntegerField()
    due_ms = serializers.IntegerField()
    ended_ms = serializers.IntegerField()
    status = serializers.IntegerField()
    error = serializers.CharField()


Row = TypeVar("Row")
_READS, _WRITES = everywhere(Verb.VIEW), everywhere(Verb.ADMIN).writing()


def _save(save: Callable[..., Row], *arguments: Any) -> Row:
    try:
        return save(*arguments)
    except ValueError as error:
        raise bad_request(f"{error}.") from error


class AlertRules(ListView):
    """The rules; POST creates one."""

    access = {"GET": _READS, "POST": _WRITES}
    shape = RuleShape
    takes = {"POST": RuleShape}
    codes = {"POST": 201}
    filters = {"kind": equal("kind"), "enabled": flag("enabled")}
    orders = {"name": "name", "kind": "kind"}

    def rows(self, **path: Any) -> QuerySet[Any]:
        return Rule.objects.prefetch_related("destinations")

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [rule_editing.describe_rule(row) for row in rows]

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        row = _save(rule_editing.save_rule, self.parse_body())
        rule = rule_editing.describe_rule(row)
        record_change(self.http_request, before=None, after=rule, action="create alert rule")
        return Response(rule, status=201, headers={"Location": f"/api/v1/alerts/rules/{row.pk}"})


class AlertRule(V1View):
    """One rule; PUT replaces all of its fields."""

    access = {"GET": _READS, "PUT": _WRITES, "DELETE": _WRITES}
    shape = RuleShape
    takes = {"PUT": RuleShape}
    codes = {"DELETE": 204}

    def get(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        return Response(rule_editing.describe_rule(_rule(number)))

    def put(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = _rule(number)
        before = rule_editing.describe_rule(row)
        _save(rule_editing.save_rule, self.parse_body(), row)
        after = rule_editing.describe_rule(_rule(number))
        record_change(self.http_request, before=before, after=after, action="change alert rule")
        return Response(after)

    def delete(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = _rule(number)
        record_change(self.http_request, before=rule_editing.describe_rule(row), after=None, action="delete alert rule")
        rule_editing.delete(row)
        return Response(status=204)


class AlertDestinations(ListView):
    """Where messages are sent; POST creates one. A webhook without a secret gets one, which only this answer shows."""

    access = {"GET": _READS, "POST": _WRITES}
    shape = DestinationShape
    takes = {"POST": DestinationShape}
    codes = {"POST": 201}
    filters = {"kind": equal("kind"), "enabled": flag("enabled")}
    orders = {"name": "name", "kind": "kind"}

    def rows(self, **path: Any) -> QuerySet[Any]:
        return Destination.objects.all()

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [rule_editing.describe_destination(row) for row in rows]

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        result = _save(rule_editing.save_destination, self.parse_body())
        destination = rule_editing.describe_destination(result.row)
        record_change(self.http_request, before=None, after=destination, action="create alert destination")
        once: Mapping[str, Any] = {**destination, "secret": result.secret} if result.secret else destination
        return Response(once, status=201, headers={"Location": f"/api/v1/alerts/destinations/{result.row.pk}"})


class AlertDestination(V1View):
    """One destination; PUT replaces all of its fields. With `dry_run`, it only says whether that would change any: who
    keeps destinations in files cannot compare what is masked.
    """

    access = {"GET": _READS, "PUT": _WRITES, "DELETE": _WRITES}
    shape = DestinationShape
    takes = {"PUT": DestinationShape}
    queries = {"PUT": DryRunShape}
    codes = {"DELETE": 204}

    def get(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        return Response(rule_editing.describe_destination(_destination(number)))

    def put(self, request: Request, number: int) -> Response:
        row, dry_run = _destination(number), self.parse_query()["dry_run"]
        before = rule_editing.describe_destination(row)
        if dry_run:
            return Response({**before, "differs": _save(rule_editing.differs, self.parse_body(), row)})
        result = _save(rule_editing.save_destination, self.parse_body(), row)
        after = rule_editing.describe_destination(result.row)
        record_change(self.http_request, before=before, after=after, action="change alert destination")
        return Response({**after, "secret": result.secret} if result.secret else after)

    def delete(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = _destination(number)
        record_change(
            self.http_request,
            before=rule_editing.describe_destination(row),
            after=None,
            action="delete alert destination",
        )
        rule_editing.delete(row)
        return Response(status=204)


class AlertDestinationTest(V1View):
    """Send a test message. Returns its delivery; read that again for the result."""

    access = {"POST": _WRITES}
    shape = DeliveryShape
    codes = {"POST": 202}

    def post(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = _destination(number)
        delivery = rule_editing.begin_test(row)
        record_change(self.http_request, before=None, after={"destination": row.name}, action="test alert destination")
        tasks.enqueue_delivery(delivery.pk)
        return Response(DeliveryShape(delivery).data, status=202)


class AlertIncidents(ListView):
    """The incidents of the rules, newest first. `open=true`: only unresolved ones."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = IncidentShape
    filters = {
        "open": either(lambda value: Q(resolved_ms=0) if value else ~Q(resolved_ms=0)),
        "connector": equal("connector"),
        "kind": equal("kind"),
        "rule": equal("rule_name"),
        "since": since("opened_ms"),
        "until": until("opened_ms"),
    }
    orders = {"opened_ms": "opened_ms", "resolved_ms": "resolved_ms"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        return incidents(self.principal)

    def serialize(self, rows: Iterable[Any]) -> list[Any]:
        return list(rows)


class AlertDeliveries(ListView):
    """Messages with their delivery states, newest first."""

    access = {"GET": _READS}
    shape = DeliveryShape
    filters = {"state": equal("state"), "destination": equal("destination_name"), "what": equal("what")}
    orders = {"created_ms": "created_ms", "ended_ms": "ended_ms"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        return Delivery.objects.all()

    def serialize(self, rows: Iterable[Any]) -> list[Any]:
        return list(rows)


def _rule(number: int) -> Rule:
    row = Rule.objects.filter(pk=number).first()
    if row is None:
        raise not_found(f"There is no alert rule {number}: GET /api/v1/alerts/rules lists them")
    return row


def _destination(number: int) -> Destination:
    row = Destination.objects.filter(pk=number).first()
    if row is None:
        raise not_found(f"There is no alert destination {number}: GET /api/v1/alerts/destinations lists them")
    return row


_SEES, _OPERATES = somewhere(Verb.VIEW), somewhere(Verb.OPERATE).writing()


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

    access = {"GET": _SEES}
    shape = IncidentShape

    def get(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        return Response(IncidentShape(_incident(self, number)).data)


class AlertIncidentAcknowledgement(_OnIncidents):
    """Acknowledge the incident. Only the first acknowledgement counts; later ones change nothing."""

    access = {"POST": _OPERATES}
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

    access = {"GET": _SEES, "POST": _OPERATES}
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

    access = {"DELETE": _OPERATES}
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
