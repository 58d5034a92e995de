"""The confirmation of an action: shows its effect in numbers, asks for a reason, and reports the result. It is a dialog
over the page from which htmx fetches it, otherwise a page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from ringfence.access.authorise import principal_of
from ringfence.access.principal import Verb
from ringfence.audit.trail import note
from ringfence.dispatch import Refusal
from ringfence.web.views import is_fragment

LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Impact:
    """One line of an action's effect: a number or a word, what it counts, and how it is known."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action. secret: shown only now, and stored nowhere."""

    text: str
    lines: Sequence[str] = ()
    secret: str = ""


class ReasonForm(forms.Form):
    """The reason. Subclasses add the parameters of their action."""

    reason = forms.CharField(
        max_length=LONGEST_REASON,
        label="Reason, for the audit trail",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    field_order: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class ConfirmPage:
    """The confirmation of an action. confirmation: what the user must type to confirm, "" if nothing is lost. back: the
    target of Cancel.
    """

    title: str
    button: str
    back: str
    says: Sequence[str]
    effects: Sequence[Impact] = ()
    confirmation: str = ""
    connector: str = ""
    form: type[ReasonForm] = ReasonForm
    warnings: Sequence[str] = field(default_factory=tuple)


Act = Callable[[dict[str, Any]], ActionResult]
"""Carries out the action with the form's values (`reason` among them). Raises `Refusal`, `ValueError` or
`ValidationError`.
"""


def page(request: HttpRequest, template: str, title: str, status: int = 200, **context: Any) -> HttpResponse:
    """Render a page in the console's frame."""
    return render(request, template, {"title": title, **context}, status=status)


def run(request: HttpRequest, sheet: ConfirmPage, act: Act) -> HttpResponse:
    """Show the confirmation; when it is sent, carry out the action and show the result."""
    if request.method != "POST":
        return _render(request, sheet, sheet.form())
    form = sheet.form(request.POST)
    if sheet.confirmation and request.POST.get("confirm") != sheet.confirmation:
        form.add_error(None, "The name does not match: nothing was changed.")
    if not form.is_valid():
        note(request, "; ".join(str(text) for texts in form.errors.values() for text in texts))
        return _render(request, sheet, form, 400)
    reason = str(form.cleaned_data["reason"]).strip()
    note(request, reason)
    try:
        result = act({**form.cleaned_data, "reason": reason})
    except Refusal as error:
        return _fail(request, sheet, form, error.message, error.status)
    except ValidationError as error:
        return _fail(request, sheet, form, " ".join(error.messages), 400)
    except ValueError as error:
        return _fail(request, sheet, form, str(error), 400)
    if result.lines:
        note(request, f"{reason}. {result.text} {' '.join(result.lines)}"[:LONGEST_REASON])
    entry = request.ringfence_draft.entry_of(sheet.connector)  # type: ignore[attr-defined]
    reads = principal_of(request).may_somewhere(Verb.VIEW_CONFIG)
    context = {"sheet": sheet, "result": result, "entry": entry, "reads_audit": reads}
    response = _page_or_dialog(request, "act_done", sheet, 200, context)
    response["Cache-Control"] = "no-store"
    return response


def _fail(request: HttpRequest, sheet: ConfirmPage, form: ReasonForm, message: str, status: int) -> HttpResponse:
    form.add_error(None, message)
    note(request, f"{form.cleaned_data['reason']}. {message}"[:LONGEST_REASON])
    return _render(request, sheet, form, status)


def _render(request: HttpRequest, sheet: ConfirmPage, form: ReasonForm, status: int = 200) -> HttpResponse:
    context = {"sheet": sheet, "form": form, "address": request.get_full_path()}
    return _page_or_dialog(request, "confirm", sheet, status, context)


def _page_or_dialog(
    request: HttpRequest, part: str, sheet: ConfirmPage, status: int, context: dict[str, Any]
) -> HttpResponse:
    if is_fragment(request):
        return render(request, f"console/parts/{part}.html", {**context, "in_dialog": True}, status=status)
    return page(request, f"console/{part}.html", sheet.title, status, **context)
