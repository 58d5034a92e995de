"""The pages of incidents: open ones, rules, destinations with a test and the delivery of each message, silences."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ringfence.access.authorise import everywhere, principal_of, requires, somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.alerts import incident_report, rule_editing, tasks
from ringfence.alerts.conditions import Kind
from ringfence.alerts.incident_report import incidents
from ringfence.alerts.models import Delivery, Destination, Rule, Silence, now_ms
from ringfence.alerts.rule_editing import DestinationForm, NewDestinationForm, RuleForm
from ringfence.alerts.senders import CHANNELS
from ringfence.audit.trail import note, record_change
from ringfence.web.views import is_fragment

_ADMINISTERS = requires(GET=everywhere(Verb.ADMIN), POST=everywhere(Verb.ADMIN).writing())
_SEES_ALL = requires(GET=everywhere(Verb.VIEW))
_WRITES = requires(POST=everywhere(Verb.ADMIN).writing())
_both = require_http_methods(["GET", "POST"])
_MOST_ROWS = 50


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def open_incidents(request: HttpRequest) -> HttpResponse:
    """Show the open incidents, and the resolved ones below them; for htmx, the part that refreshes."""
    who = principal_of(request)
    visible_incidents = incidents(who).order_by("-opened_ms", "-pk")
    context: dict[str, Any] = {
        "section": "alerts",
        "open": visible_incidents.filter(resolved_ms=0)[:200],
        "past": visible_incidents.exclude(resolved_ms=0)[:_MOST_ROWS],
        "silences": _visible_silences(who),
        "nobody_is_told": who.may_everywhere(Verb.ADMIN) and not Destination.objects.filter(enabled=True).exists(),
    }
    template = "ringfence/parts/incidents.html" if is_fragment(request) else "ringfence/incidents.html"
    return render(request, template, context)


def _visible_silences(who: Principal) -> list[Silence]:
    return [one for one in incident_report.in_force(now_ms()) if not one.connector or who.may(Verb.VIEW, one.connector)]


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def list_silences(request: HttpRequest) -> HttpResponse:
    """Show the silences in force."""
    context = {"section": "alerts", "silences": _visible_silences(principal_of(request))}
    return render(request, "ringfence/silences.html", context)


@_SEES_ALL
@require_safe
@ensure_csrf_cookie
def rules(request: HttpRequest) -> HttpResponse:
    """Show the rules, and what each of them tells."""
    rows = Rule.objects.prefetch_related("destinations").order_by("name")
    context = {
        "section": "alerts",
        "rules": [(row, Kind(row.kind).meaning) for row in rows],
        "may_administer": principal_of(request).may_everywhere(Verb.ADMIN),
    }
    return render(request, "ringfence/alert_rules.html", context)


@_SEES_ALL
@require_safe
@ensure_csrf_cookie
def destinations(request: HttpRequest) -> HttpResponse:
    """Show the destinations, and the newest messages with their delivery; for htmx, the messages."""
    context: dict[str, Any] = {
        "section": "alerts",
        "deliveries": Delivery.objects.select_related("incident").order_by("-created_ms", "-pk")[:_MOST_ROWS],
    }
    if is_fragment(request):
        return render(request, "ringfence/parts/alert_messages.html", context)
    count = Rule.objects.count()
    rows = Destination.objects.annotate(told_by=Count("rules")).order_by("name")
    context["destinations"] = [(row, CHANNELS[row.kind].word, row.told_by, row.told_by < count) for row in rows]
    context |= {"rule_count": count, "may_administer": principal_of(request).may_everywhere(Verb.ADMIN)}
    return render(request, "ringfence/alert_destinations.html", context)


def _form(
    request: HttpRequest, title: str, form: forms.Form, status: int = 200, row: Rule | Destination | None = None
) -> HttpResponse:
    back = request.path.rpartition("/")[0]
    delete = "" if row is None else f"{request.path}/delete"
    context = {"section": "alerts", "title": title, "form": form, "row": row, "delete": delete, "back": back}
    return render(request, "ringfence/alert_form.html", context, status=status)


def _save_form(
    request: HttpRequest,
    title: str,
    form: forms.Form,
    save: Callable[[dict[str, Any]], HttpResponse],
    row: Rule | Destination | None = None,
) -> HttpResponse:
    if not form.is_valid():
        note(request, "The form has errors")
        return _form(request, title, form, 400, row)
    try:
        return save(form.cleaned_data)
    except ValueError as error:
        form.add_error(None, f"{error}.")
        note(request, str(error))
        return _form(request, title, form, 400, row)


def _to_list(row: Rule | Destination, *, deleted: bool = False) -> HttpResponse:
    """Redirect to the list, with the written row highlighted."""
    kind = type(row).__name__.lower()
    return HttpResponseRedirect(f"/ui/incidents/{kind}s" + ("" if deleted else f"#{kind}-{row.pk}"))


@_ADMINISTERS
@_both
def new_rule(request: HttpRequest) -> HttpResponse:
    """Add a rule."""
    if request.method != "POST":
        return _form(request, "New alert rule", RuleForm())

    def save(values: dict[str, Any]) -> HttpResponse:
        row = rule_editing.save_rule(values)
        record_change(request, before=None, after=rule_editing.describe_rule(row), action="create alert rule")
        return _to_list(row)

    return _save_form(request, "New alert rule", RuleForm(request.POST), save)


@_ADMINISTERS
@_both
def edit_rule(request: HttpRequest, number: int) -> HttpResponse:
    """Change a rule."""
    row = _get_or_404(Rule, number)
    before = rule_editing.describe_rule(row)
    if request.method != "POST":
        return _form(request, f"Alert rule {row.name}", RuleForm(initial=before), row=row)

    def save(values: dict[str, Any]) -> HttpResponse:
        rule_editing.save_rule(values, row)
        record_change(
            request,
            before=before,
            after=rule_editing.describe_rule(_get_or_404(Rule, number)),
            action="change alert rule",
        )
        return _to_list(row)

    return _save_form(request, f"Alert rule {before['name']}", RuleForm(request.POST), save, row)


@sensitive_post_parameters("url", "secret")
def _new_destination(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "New destination", NewDestinationForm())

    def save(values: dict[str, Any]) -> HttpResponse:
        result = rule_editing.save_destination(values)
        if values["all_rules"]:
            rule_editing.tell_by_all_rules(result.row)
        after = rule_editing.describe_destination(result.row)
        record_change(request, before=None, after=after, action="create alert destination")
        return _secret_once(request, result)

    return _save_form(request, "New destination", NewDestinationForm(request.POST), save)


new_destination = _ADMINISTERS(_both(_new_destination))


@sensitive_post_parameters("url", "secret")
def _edit_destination(request: HttpRequest, number: int) -> HttpResponse:
    row = _get_or_404(Destination, number)
    before = rule_editing.describe_destination(row)
    initial = {**before, "secret": "", "recipients": row.recipients}
    if request.method != "POST":
        return _form(request, f"Destination {row.name}", DestinationForm(initial=initial), row=row)

    def save(values: dict[str, Any]) -> HttpResponse:
        result = rule_editing.save_destination(values, row)
        after = rule_editing.describe_destination(result.row)
        record_change(request, before=before, after=after, action="change alert destination")
        return _secret_once(request, result)

    return _save_form(request, f"Destination {before['name']}", DestinationForm(request.POST), save, row)


edit_destination = _ADMINISTERS(_both(_edit_destination))


def _secret_once(request: HttpRequest, result: rule_editing.NewDestination) -> HttpResponse:
    """Show the generated secret, once, on a page of its own. It is stored only with the destination."""
    if not result.secret:
        return _to_list(result.row)
    context = {"section": "alerts", "row": result.row, "secret": result.secret}
    response = render(request, "ringfence/alert_secret.html", context)
    response["Cache-Control"] = "no-store"
    return response


@_ADMINISTERS
@_both
def delete_rule(request: HttpRequest, number: int) -> HttpResponse:
    """Ask; then delete a rule. Its incidents are resolved at the next evaluation."""
    row = _get_or_404(Rule, number)
    return _delete(request, row, rule_editing.describe_rule(row), "delete alert rule")


@_ADMINISTERS
@_both
def delete_destination(request: HttpRequest, number: int) -> HttpResponse:
    """Ask; then delete a destination, with its address and secret."""
    row = _get_or_404(Destination, number)
    return _delete(request, row, rule_editing.describe_destination(row), "delete alert destination")


def _delete(request: HttpRequest, row: Rule | Destination, before: dict[str, Any], action: str) -> HttpResponse:
    if request.method != "POST":
        part, back = "ringfence/parts/alert_delete.html", request.path.rpartition("/")[0]
        question = {"section": "alerts", "row": row, "part": part, "title": row.name, "back": back}
        return render(request, part if is_fragment(request) else "ringfence/ask.html", question)
    if request.POST.get("confirm") != row.name:
        text = "The name does not match: nothing was deleted."
        note(request, text)
        context = {"code": 400, "title": "The action failed", "text": text}
        return render(request, "ringfence/error.html", context, status=400)
    record_change(request, before=before, after=None, action=action)
    answer = _to_list(row, deleted=True)
    rule_editing.delete(row)
    return answer


@_WRITES
@require_POST
def test_destination(request: HttpRequest, number: int) -> HttpResponse:
    """Send a test message. The list of messages shows whether it was delivered."""
    row = _get_or_404(Destination, number)
    delivery = rule_editing.begin_test(row)
    record_change(request, before=None, after={"destination": row.name}, action="test alert destination")
    tasks.enqueue_delivery(delivery.pk)
    return HttpResponseRedirect("/ui/incidents/destinations#messages")


@_WRITES
@require_POST
def tell_by_all_rules(request: HttpRequest, number: int) -> HttpResponse:
    """Have each rule tell this destination."""
    row = _get_or_404(Destination, number)
    rule_editing.tell_by_all_rules(row)
    after = {"destination": row.name, "rules": Rule.objects.count()}
    record_change(request, before=None, after=after, action="notify alert destination from all rules")
    return _to_list(row)


def _get_or_404(model: Any, number: int) -> Any:
    row = model.objects.filter(pk=number).first()
    if row is None:
        raise Http404("It is gone")
    return row
