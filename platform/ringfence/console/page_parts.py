"""The parts of the console's pages.

The confirmation of an action shows its effect in numbers, asks for a reason, and reports the result. It is a dialog
over the page from which htmx fetches it, otherwise a page. At a live page, one address serves the page and, for htmx,
its live part. Tables have cells, times, links, and a searchable page of rows.
"""

import json
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

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


CLUSTER, AUDIT, CLOCK = "cluster", "audit", "clock"
"""What triggers a refresh: changes of connectors, workers and the leader; entries of the audit trail, which every
change of an account, grant, token or session leaves; or only the time, every ten seconds, if each refresh queries
Kafka.
"""


def render_live(request: HttpRequest, body: str, title: str, follows: str, **context: Any) -> HttpResponse:
    """body: the name of `console/<body>.html`, whose live part is `console/parts/<body>.html`."""
    if is_fragment(request):
        return render(request, f"console/parts/{body}.html", {"title": title, **context})
    context |= {"part": f"console/parts/{body}.html", "part_address": quote(request.path)}
    return page(request, f"console/{body}.html", title, stream=_stream(request, follows), **context)


def _stream(request: HttpRequest, follows: str) -> str:
    """Return the address of the events; "" if the account may not follow them, so that the page polls."""
    who = principal_of(request)
    if follows == CLOCK or not who.may_somewhere(Verb.VIEW):
        return ""
    if follows == AUDIT:
        return "/ui/events?about=audit" if who.may_somewhere(Verb.VIEW_CONFIG) else ""
    return "/ui/events"


NOTHING = "\N{EN DASH}"
PAGE_SIZE = 50
Cell = str | SafeString


@dataclass(frozen=True, slots=True)
class Table:
    """keys: the identity of each row. The focus on a row's link follows the row when it moves."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    keys: Sequence[object]

    @property
    def labelled_rows(self) -> list[tuple[str, list[tuple[str, Cell]]]]:
        """Return each row's id with pairs of heading and cell: in a narrow window, each cell shows its heading."""
        return [
            (f"row-{quote(str(key), safe='')}", list(zip(self.headers, row, strict=True)))
            for key, row in zip(self.keys, self.rows, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Filter:
    """A choice above a table: the address's parameter, a title, (value, title) pairs and the current value."""

    name: str
    word: str
    options: Sequence[tuple[str, str]]
    current_value: str


def moment(ms: int) -> Cell:
    """Format a time in UTC, which the page's script converts to the user's time zone; a dash for never."""
    if not ms:
        return NOTHING
    at = datetime.fromtimestamp(ms / 1000, UTC)
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    iso = at.isoformat(timespec="seconds")
    return format_html('<time datetime="{}" title="{} UTC" data-local="date">{}</time>', iso, text, text)


def whole(word: str) -> SafeString:
    """Format a word that is never broken, however narrow its column is."""
    return format_html('<span class="whole">{}</span>', word)


def links(*pairs: tuple[str, str], asking: Container[str] = ()) -> SafeString:
    """Format pairs of address and text. asking: the texts of those that are acts, which ask over this page."""
    cells = ((address, mark_safe(" data-ask") if text in asking else "", text) for address, text in pairs)
    return format_html('<span class="links">{}</span>', format_html_join("", '<a href="{}"{}>{}</a>', cells))


def indent_json(text: str) -> SafeString:
    json_text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return format_html('<pre class="code" tabindex="0">{}</pre>', json_text)


def page_of(request: HttpRequest, rows: Any) -> Page[Any]:
    return Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))


def list_context(request: HttpRequest, page: Page[Any], filters: Iterable[Filter] = ()) -> dict[str, Any]:
    """Return the template's context for a page of rows: the search, the filters, and links that keep both."""
    filters = list(filters)
    search = request.GET.get("q", "").strip()
    parameters = {each.name: each.current_value for each in filters if each.current_value} | (
        {"q": search} if search else {}
    )
    return {"pages": page, "search": search, "searches": True, "filters": filters, "query": urlencode(parameters)}
