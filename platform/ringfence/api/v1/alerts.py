"""`/api/v1/alerts/*`: rules, destinations (write-only secrets) and their test, incidents, deliveries."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.principal import Verb
from ringfence.access.routes import everywhere, somewhere
from ringfence.alerts import rule_editing, tasks
from ringfence.alerts.incident_report import incidents
from ringfence.alerts.models import Delivery, Destination, Rule
from ringfence.api.v1.alert_shapes import DeliveryShape, DestinationShape, DryRunShape, IncidentShape, RuleShape
from ringfence.api.v1.base import V1View
from ringfence.api.v1.listing import ListView, either, equal, flag, since, until
from ringfence.audit.trail import record_change
from ringfence.http.errors import bad_request, not_found

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
