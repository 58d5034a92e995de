"""The results of the palette: actions on connectors ("pause orders", "orders restart failed"), new connectors, pages,
connectors, their topics, workers, and documents, the best first.

An action opens its confirmation in place. Results are limited to what the user may do and see. The browser finds the
places of the navigation, commands of its own, and what was opened lately (`keys.js`).
What somebody types may have words in any order, parts of words, and left-out letters.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.projection.models import ActiveTopic, Connector, Worker
from ringfence.web.action_buttons import ACTIONS
from ringfence.web.handbook.documents import search_headings
from ringfence.web.lists.connector_query import choose
from ringfence.web.navigation import BELOW, PLACES

_EXACT: Final = 100
_BEGINS: Final = 60
_IN_WORD: Final = 40
_LETTERS: Final = 10
_SHORTEST_ABBREVIATION: Final = 3
_NAME: Final = 60
"""Letters may be left out across the words of a name, not of a longer text, where they are always somewhere."""
_SEPARATORS: Final = str.maketrans("-_./:", "     ")


def match(typed: str, text: str) -> int:
    """Return how well all words of `typed` are in the text, 0 if one is not. A word may leave out letters, if it has at
    least three and begins as a word of the text.
    """
    typed, text = typed.casefold().strip(), text.casefold()
    if typed == text:
        return _EXACT * 2
    words = text.translate(_SEPARATORS).split()
    whole = "".join(words) if len(words) > 1 and len(text) <= _NAME else ""
    total = 0
    for part in typed.split():
        score = max((_score(part, word) for word in words), default=0)
        if not score:
            score = _IN_WORD if part in text else _score(part, whole) if whole else 0
        if not score:
            return 0
        total += score
    # Of two texts with the same words the shorter one is meant.
    return max(1, total - len(text) // 8)


def _score(part: str, word: str) -> int:
    if part == word:
        return _EXACT
    if word.startswith(part):
        return _BEGINS
    if part in word:
        return _IN_WORD
    is_short_form = len(part) >= _SHORTEST_ABBREVIATION and part[0] == word[0] and _leaves_letters_out(part, word)
    return _LETTERS if is_short_form else 0


def _leaves_letters_out(part: str, word: str) -> bool:
    letters = iter(word)
    return all(letter in letters for letter in part)


@dataclass(frozen=True, slots=True)
class Act:
    """word: what the user types, or its beginning; title: what it is called; address: of the confirmation or page, with
    {} for the connector; in_place: the confirmation opens over the page where the user is.
    """

    word: str
    title: str
    address: str
    verb: Verb
    icon: str
    in_place: bool = False


ACTS: Final = (
    *(
        Act(
            each.name.replace("-", " "),
            each.word,
            f"/ui/connectors/{{}}/actions/{each.name}",
            each.verb,
            each.icon,
            in_place=True,
        )
        for each in ACTIONS
    ),
    Act("edit", "Edit", "/ui/connectors/{}/edit", Verb.EDIT, "pencil"),
    Act("fence", "Fence", "/ui/connectors/{}/fence", Verb.FENCE, "shield", in_place=True),
    Act("delete", "Delete", "/ui/connectors/{}/delete", Verb.DELETE, "trash-2", in_place=True),
    Act("offsets", "Offsets of", "/ui/connectors/{}/offsets", Verb.VIEW, "list-ordered"),
    Act("logs", "Logs of", "/ui/connectors/{}/logs", Verb.VIEW, "file-text"),
)


@dataclass(frozen=True, slots=True)
class NewThing:
    """Something to create. known_as: other words for it."""

    word: str
    address: str
    icon: str
    known_as: str = ""


NEW: Final = (
    NewThing("New connector", "/ui/new", "plus", "create add source"),
    NewThing("New connector from PostgreSQL", "/ui/new?class=PostgresSource", "database", "postgres database cdc"),
    NewThing("New connector from a SQL database", "/ui/new?class=SqlSource", "database", "mysql mariadb sqlite tables"),
    NewThing("New connector from files", "/ui/new?class=FilesSource", "file-text", "csv parquet json s3 folder"),
    NewThing("New connector from a REST API", "/ui/new?class=DltSource", "app-window", "dlt http json"),
    NewThing("New connector from webhooks", "/ui/new?class=WebhookSource", "app-window", "http hooks"),
    NewThing("New alert rule", "/ui/incidents/rules/new", "bell", "create add"),
    NewThing("New destination", "/ui/incidents/destinations/new", "send", "slack teams pagerduty opsgenie mail"),
)


MOST_MATCHES: Final = 12
_MOST_OF_A_KIND: Final = 6
_MOST_NAMES: Final = 2000
_SECTIONS: Final = 4
_SHORTEST: Final = 2
_WRITES: Final = 250
"""The score of a connector that writes to a topic of that name: before the topic."""


@dataclass(frozen=True, slots=True)
class PaletteLine:
    """A line of the palette. hint: a muted word after it; score: how well it matches; in_place: it opens a dialog."""

    address: str
    icon: str
    word: str
    hint: str = ""
    score: int = 0
    in_place: bool = False


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def find(request: HttpRequest) -> HttpResponse:
    """`?q=`."""
    who, text = principal_of(request), request.GET.get("q", "").strip()[:200].replace("\x00", "")
    return render(request, "ringfence/parts/found.html", {"found": _find(who, text)})


def _find(who: Principal, text: str) -> list[PaletteLine]:
    if len(text) < _SHORTEST:
        return list(_find_connectors(who, text))
    finders = (_find_pages, _find_new, _find_acts, _find_connectors, _find_topics, _find_workers, _find_sections)
    lines = [line for each in finders for line in each(who, text)]
    return sorted(lines, key=lambda line: -line.score)  # stable: of equal ones, the kinds in this order


def _best(lines: Iterator[PaletteLine], most: int = _MOST_OF_A_KIND) -> list[PaletteLine]:
    return sorted((line for line in lines if line.score), key=lambda line: -line.score)[:most]


def _find_pages(who: Principal, text: str) -> list[PaletteLine]:
    return _best(
        PaletteLine(page.address, place.icon, page.word, place.word, match(text, f"{page.word} {page.known_as}"))
        for place in (*PLACES, *BELOW)
        for page in place.pages
        if page.is_allowed(who)
    )


def _find_new(who: Principal, text: str) -> list[PaletteLine]:
    if not who.may_somewhere(Verb.EDIT):
        return []
    return _best(
        PaletteLine(each.address, each.icon, each.word, "create", match(text, f"{each.word} {each.known_as}"))
        for each in NEW
    )


def _find_acts(who: Principal, text: str) -> list[PaletteLine]:
    """Return actions of which a word is typed, on the connectors that match the others, or on all."""
    lines: list[PaletteLine] = []
    for act in ACTS:
        rest = _without(text, act.word)
        if rest is None:
            continue
        rows = Connector.objects.filter(who.query(act.verb), who.query(Verb.VIEW), known=True)
        names = rows.order_by("name").values_list("name", flat=True)[:_MOST_NAMES]
        lines += _best(
            (
                PaletteLine(
                    act.address.format(quote(name, safe="")),
                    act.icon,
                    f"{act.title} {name}",
                    score=1 + match(text, f"{act.word} {name}") if rest else 1,
                    in_place=act.in_place,
                )
                for name in names
                if not rest or match(rest, name)
            ),
        )
    return _best(iter(lines), MOST_MATCHES)


def _without(text: str, words: str) -> str | None:
    """Return the text without the act's words; None if the first of them is not typed, at least in part."""
    rest = text.casefold().split()
    for number, word in enumerate(words.split()):
        typed = next((each for each in rest if word.startswith(each) and len(each) >= _SHORTEST), None)
        if typed is not None:
            rest.remove(typed)
        elif not number:
            return None
    return " ".join(rest)


def _find_connectors(who: Principal, text: str) -> Iterator[PaletteLine]:
    if len(text) < _SHORTEST:
        matches = choose({"q": text}, who, int(time.time() * 1000)).sorted_rows.only("name", "class_name", "health")
        for row in matches[:MOST_MATCHES]:
            yield PaletteLine(f"/ui/connectors/{row.path}", "plug", row.name, row.class_name.rpartition(".")[2])
        return
    writing = ActiveTopic.objects.filter(who.query(Verb.VIEW, "connector"), topic__icontains=text)
    writers = set(writing.values_list("connector", flat=True)[:MOST_MATCHES])
    rows = Connector.objects.filter(who.query(), known=True).order_by("name").values_list("name", "class_name")
    yield from _best(
        (
            PaletteLine(
                f"/ui/connectors/{quote(name, safe='')}",
                "plug",
                name,
                class_name.rpartition(".")[2],
                max(score + 5 if (score := match(text, name)) else 0, _WRITES if name in writers else 0),
            )
            for name, class_name in rows[:_MOST_NAMES]
        ),
        MOST_MATCHES,
    )


def _find_topics(who: Principal, text: str) -> list[PaletteLine]:
    rows = ActiveTopic.objects.filter(who.query(Verb.VIEW, "connector")).order_by("topic")
    names = rows.values_list("topic", flat=True).distinct()[:_MOST_NAMES]
    return _best(
        PaletteLine(f"/ui/topics/{quote(name, safe='')}", "database", name, "topic", match(text, name))
        for name in names
    )


def _find_workers(_who: Principal, text: str) -> list[PaletteLine]:
    names = Worker.objects.order_by("worker").values_list("worker", flat=True)
    return _best(PaletteLine("/ui/workers", "server", name, "worker", match(text, name)) for name in names)


def _find_sections(_who: Principal, text: str) -> Iterator[PaletteLine]:
    for section in search_headings(text)[:_SECTIONS]:
        yield PaletteLine(section.address, "file-text", section.title, "documentation", 2)
