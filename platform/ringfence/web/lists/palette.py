"""The results of the palette: actions on connectors ("pause orders"), connectors, their topics, and documents.

An action is a link to its confirmation page. Results are limited to what the user may do and see. The browser finds the
pages of the navigation (`keys.js`); pages that are reached only from other pages are found here.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of
from ringfence.access.principal import Principal
from ringfence.access.routes import requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.projection.models import ActiveTopic, Connector
from ringfence.web.handbook.documents import search_headings
from ringfence.web.lists.connector_query import choose
from ringfence.web.lists.palette_actions import ACTS

MOST_MATCHES: Final = 12
_TOPICS: Final = 6
_SECTIONS: Final = 4
_SHORTEST: Final = 2


@dataclass(frozen=True, slots=True)
class PaletteLine:
    """A line of the palette. hint: a muted word after it."""

    address: str
    icon: str
    word: str
    hint: str = ""


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def find(request: HttpRequest) -> HttpResponse:
    """`?q=`."""
    who, text = principal_of(request), request.GET.get("q", "").strip()[:200].replace("\x00", "")
    finders = (_find_pages, _find_acts, _find_connectors, _find_topics, _find_sections)
    matches = [each for find_in in finders for each in find_in(who, text)]
    return render(request, "ringfence/parts/found.html", {"found": matches})


def _find_pages(who: Principal, text: str) -> Iterator[PaletteLine]:
    if len(text) < _SHORTEST:
        return
    if who.may_somewhere(Verb.EDIT) and text.casefold() in "new connector":
        yield PaletteLine("/ui/new", "plus", "New connector")
    if who.may_everywhere(Verb.INSTALL_PLUGINS) and text.casefold() in "install a plugin":
        yield PaletteLine("/ui/plugins", "download", "Install a plugin")


def _find_acts(who: Principal, text: str) -> Iterator[PaletteLine]:
    """Yield actions whose word begins with the first word, for the connectors that match the rest."""
    word, _, rest = text.partition(" ")
    if len(word) < _SHORTEST:
        return
    left = MOST_MATCHES
    for act in ACTS:
        if not act.word.startswith(word.casefold()) or left <= 0:
            continue
        rows = Connector.objects.filter(who.query(act.verb), who.query(Verb.VIEW), known=True)
        for name in rows.filter(name__icontains=rest.strip()).order_by("name").values_list("name", flat=True)[:left]:
            left -= 1
            yield PaletteLine(act.address.format(quote(name, safe="")), act.icon, f"{act.word} {name}", "act")


def _find_connectors(who: Principal, text: str) -> Iterator[PaletteLine]:
    for row in choose({"q": text}, who, int(time.time() * 1000)).sorted_rows.only("name", "class_name", "health")[
        :MOST_MATCHES
    ]:
        yield PaletteLine(f"/ui/connectors/{row.path}", "plug", row.name, row.class_name.rpartition(".")[2])


def _find_topics(who: Principal, text: str) -> Iterator[PaletteLine]:
    if len(text) < _SHORTEST:
        return
    rows = ActiveTopic.objects.filter(who.query(Verb.VIEW, "connector"), topic__icontains=text)
    for topic in rows.order_by("topic").values_list("topic", flat=True).distinct()[:_TOPICS]:
        yield PaletteLine(f"/ui/topics/{quote(topic, safe='')}", "database", topic, "topic")


def _find_sections(_who: Principal, text: str) -> Iterator[PaletteLine]:
    if len(text) < _SHORTEST:
        return
    for section in search_headings(text)[:_SECTIONS]:
        yield PaletteLine(section.address, "file-text", section.title, "documentation")
