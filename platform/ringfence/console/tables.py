"""The parts of the console's tables: cells, times, links, and a searchable page of rows."""

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from django.core.paginator import Page, Paginator
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

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
