"""The alert pages: open incidents, rules, destinations with a test, and the delivery of each message."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ringfence.access.authorise import principal_of
from ringfence.access.routes import everywhere, requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.alerts import rule_editing, silences, tasks
from ringfence.alerts.conditions import Kind
from ringfence.alerts.deliveries import now_ms
from ringfence.alerts.forms import DestinationForm, RuleForm
from ringfence.alerts.models import Delivery, Destination, Rule
from ringfence.alerts.visible_incidents import incidents
from ringfence.audit.trail import note, record_change
from ringfence.web.views import is_fragment

_ADMINISTERS = requires(GET=everywhere(Verb.ADMIN), POST=everywhere(Verb.ADMIN).writing())
_WRITES = requires(POST=everywhere(Verb.ADMIN).writing())
_both = require_http_methods(["GET", "POST"])
_MOST_ROWS = 50


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def alerts(request: HttpRequest) -> HttpResponse:
    """Show the page; for htmx, the part that refreshes."""
    who = principal_of(request)
    visible_incidents = incidents(who).order_by("-opened_ms", "-pk")
    sees_all = who.may_everywhere(Verb.VIEW)
    context: dict[str, Any] = {
        "section": "alerts",
        "open": visible_incidents.filter(resolved_ms=0)[:200],
        "past": visible_incidents.exclude(resolved_ms=0)[:_MOST_ROWS],
        "deliveries": Delivery.objects.select_related("incident").order_by("-created_ms", "-pk")[:_MOST_ROWS]
        if sees_all
        else (),
        "silences": [
            one for one in silences.in_force(now_ms()) if not one.connector or who.may(Verb.VIEW, one.connector)
        ],
        "sees_all": sees_all,
        "may_administer": who.may_everywhere(Verb.ADMIN),
    }
    if is_fragment(request):
        return render(request, "ringfence/parts/alerts.html", context)
    if sees_all:
        rules = Rule.objects.prefetch_related("destinations").order_by("name")
        context["rules"] = [(row, Kind(row.kind).meaning) for row in rules]
        context["destinations"] = Destination.objects.order_by("name")
    return render(request, "ringfence/alerts.html", context)


def _form(
    request: HttpRequest, title: str, form: forms.Form, status: int = 200, row: Rule | Destination | None = None
) -> HttpResponse:
    delete = "" if row is None else f"{request.path}/delete"
    context = {"section": "alerts", "title": title, "form": form, "row": row, "delete": delete}
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


def _to_list(row: Rule | Destination | None = None) -> HttpResponse:
    """Redirect to the list, with the written row highlighted."""
    at = "" if row is None else f"#{type(row).__name__.lower()}-{row.pk}"
    return HttpResponseRedirect(f"/ui/alerts{at}")


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
        return _form(request, "New destination", DestinationForm())

    def save(values: dict[str, Any]) -> HttpResponse:
        result = rule_editing.save_destination(values)
        after = rule_editing.describe_destination(result.row)
        record_change(request, before=None, after=after, action="create alert destination")
        return _secret_once(request, result)

    return _save_form(request, "New destination", DestinationForm(request.POST), save)


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


@_WRITES
@require_POST
def delete_rule(request: HttpRequest, number: int) -> HttpResponse:
    """Delete a rule. Its incidents are resolved at the next evaluation."""
    row = _get_or_404(Rule, number)
    return _delete(request, row, rule_editing.describe_rule(row), "delete alert rule")


@_WRITES
@require_POST
def delete_destination(request: HttpRequest, number: int) -> HttpResponse:
    """Delete a destination, with its address and secret."""
    row = _get_or_404(Destination, number)
    return _delete(request, row, rule_editing.describe_destination(row), "delete alert destination")


def _delete(request: HttpRequest, row: Rule | Destination, before: dict[str, Any], action: str) -> HttpResponse:
    if request.POST.get("confirm") != row.name:
        text = "The name does not match: nothing was deleted."
        note(request, text)
        context = {"code": 400, "title": "The action failed", "text": text}
        return render(request, "ringfence/error.html", context, status=400)
    record_change(request, before=before, after=None, action=action)
    rule_editing.delete(row)
    return _to_list()


@_WRITES
@require_POST
def test_destination(request: HttpRequest, number: int) -> HttpResponse:
    """Send a test message. The list of messages shows whether it was delivered."""
    row = _get_or_404(Destination, number)
    delivery = rule_editing.begin_test(row)
    record_change(request, before=None, after={"destination": row.name}, action="test alert destination")
    tasks.enqueue_delivery(delivery.pk)
    return HttpResponseRedirect("/ui/alerts#messages")


def _get_or_404(model: Any, number: int) -> Any:
    row = model.objects.filter(pk=number).first()
    if row is None:
        raise Http404("It is gone")
    return row
