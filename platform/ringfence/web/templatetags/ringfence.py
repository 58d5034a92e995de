"""Template filters and tags for numbers, times, icons and states, and what people call a connector's class."""

import json
import re
import threading
import time
from collections.abc import Container
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode

from django import template
from django.db import DatabaseError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from ringfence.access.principal import display_name
from ringfence.connectors.known_plugins import find_known
from ringfence.connectors.plural_forms import write_count
from ringfence.history.plugins import read_titles
from ringfence.web.icons import draw_icon
from ringfence.web.markdown import render_markdown
from ringfence.web.new.field import Field
from ringfence.web.state_badges import Badge

_SECONDS: Final = 10.0
"""How old the titles may be that a page shows."""


class _Titles:
    """The titles of installed plugins, read at most every few seconds. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._titles: dict[str, str] = {}
        self._until = 0.0

    def read(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() >= self._until:
                with suppress(DatabaseError):  # the former ones are as good: titles do not change
                    self._titles = read_titles()
                self._until = time.monotonic() + _SECONDS
            return self._titles

    def forget(self) -> None:
        self._until = 0.0


installed_titles: Final = _Titles()


def find_title(class_name: str) -> str:
    """Return the title of the class by any of its names; its short name if the plugin has no title."""
    name = class_name.strip()
    if title := installed_titles.read().get(name):
        return title
    plugin = find_known(name)
    return plugin.entry.title if plugin is not None else name.rpartition(".")[2]


register = template.Library()

_DRAWN = re.compile(r' (?:fill|stroke(?:-width|-linecap|-linejoin)?)="(?:none|currentColor|2|round)"|\n\s*')


@lru_cache(maxsize=256)
def _icon(name: str, size: int, css: str) -> SafeString:
    svg = draw_icon(name, size, f"icon {css}".strip())
    # The stylesheet defines the stroke once: a page has hundreds of icons.
    return mark_safe(_DRAWN.sub("", svg))  # noqa: S308 - from the lucide package, with constants of our templates


@register.simple_tag
def icon(name: str, size: int = 16, css: str = "") -> SafeString:
    """Render an icon of the lucide set, hidden from screen readers: a word always stands beside it."""
    return _icon(str(name), int(size), str(css))


@register.simple_tag
def chip(look: Badge) -> SafeString:
    """Render a state: icon, word and colour."""
    spin = "spin" if look.icon in ("loader", "rotate-cw") else ""
    return format_html(
        '<span class="chip {}" title="{}">{}{}</span>', look.tone, look.help, _icon(look.icon, 14, spin), look.word
    )


@register.simple_tag
def missing(verb: str, may: Container[str], title: str = "") -> SafeString:
    """Return a button's attributes: disabled, with the missing permission, or its title. The server checks as well."""
    if verb in may:
        return format_html(' title="{}"', title) if title else mark_safe("")
    return format_html(' disabled title="You need the {} permission on this connector"', verb)


@register.simple_tag
def field_attributes(field: Field) -> SafeString:
    """Return the attributes of a setting's input element: each change validates the whole form."""
    described_by = f"err-{field.slug} help-{field.slug}" if field.help else f"err-{field.slug}"
    attributes = {
        "id": f"in-{field.slug}",
        "name": field.form_name,
        "spellcheck": "false",
        "aria-describedby": described_by,
        **({"aria-invalid": "true"} if field.errors else {}),
        "hx-post": "/ui/new/field?" + urlencode({"key": field.name}),
        "hx-trigger": "input changed delay:400ms, change",
        "hx-target": f"#err-{field.slug}",
        "hx-include": "closest form",
        "hx-sync": "this:replace",
    }
    return format_html_join("", ' {}="{}"', attributes.items())


@register.filter
def num(value: float | None) -> str:
    """Format an integer with commas between thousands."""
    return f"{int(value or 0):,}"


@register.filter
def open_transactions(count: int) -> str:
    """Format the number of open transactions in words; "" for none."""
    if not count:
        return ""
    return f"{num(count)} transaction{'' if count == 1 else 's'} open"


@register.filter
def rate(value: float | None) -> str:
    """Format a rate per second, in at most four characters and a unit; a dash if unknown."""
    if value is None:
        return "\N{EN DASH}"
    number = float(value or 0)
    for limit, divisor, unit in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if number >= limit:
            quotient = number / divisor
            return f"{quotient:.0f}{unit}" if quotient >= 100 else f"{quotient:.1f}{unit}"
    return f"{number:,.0f}" if number >= 10 or number == 0 else f"{number:.1f}"


def _words(seconds: float) -> str:
    if seconds < 1:
        return "now"
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // divisor)} {unit}"
    return f"{int(seconds // 86400)} d"


@register.filter
def lasting(ms: float) -> str:
    """Format a duration."""
    return _words(ms / 1000)


@register.filter
def as_json(value: object) -> str:
    """Format as JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


@register.simple_tag
def ago(ms: int, suffix: str = " ago") -> SafeString:
    """Format the time since then, which the page keeps up to date, with the exact time as the title. A
    dash for never.
    """
    if not ms:
        return mark_safe('<span class="muted">&ndash;</span>')
    at = datetime.fromtimestamp(ms / 1000, UTC)
    words = _words(max(0.0, time.time() - ms / 1000))
    return format_html(
        '<time datetime="{}" title="{}" data-ms="{}" data-suffix="{}">{}</time>',
        at.isoformat(timespec="seconds"),
        at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        ms,
        suffix,
        words if words == "now" else words + suffix,
    )


_STYLES = {"clock": "%H:%M:%S", "minute": "%H:%M", "day": "%Y-%m-%d %H:%M", "date": "%Y-%m-%d %H:%M:%S"}


@register.simple_tag
def moment(ms: int, style: str = "clock") -> SafeString:
    """Format a point in time in UTC, which the page's script converts to the user's time zone, with the full time as
    the title.

    style: "clock", to the second; "minute"; "day", the same with the day; "date", to the second with the day.
    """
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return format_html(
        '<time datetime="{}" title="{}" data-local="{}">{}</time>',
        at.isoformat(timespec="seconds"),
        at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        style,
        at.strftime(_STYLES[style]),
    )


@register.filter
def principal(user: str) -> str:
    """Return how an account is called for people; "" without a login."""
    return display_name(user)


@register.filter
def count(value: int | None, noun: str) -> str:
    """`{{ n|count:"record" }}`: the number with its noun, singular or plural; a dash for None."""
    return "\N{EN DASH}" if value is None else write_count(value, noun)


@register.filter
def short_class(value: str) -> str:
    """Return the last part of a class name."""
    return value.rpartition(".")[2] or value


@register.filter
def plugin_title(value: str) -> str:
    """Return what people call a connector's class."""
    return find_title(value)


@register.filter
def markdown(value: str) -> SafeString:
    """Render Markdown documentation as HTML. HTML in it stays text."""
    return render_markdown(value)
