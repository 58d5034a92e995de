"""The catalog of plugins, as cards in categories. Pure."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from ringfence.connectors.known_plugins import find_known, list_installable
from ringfence.connectors.plural_forms import write_count
from ringfence.web.icons import has_icon

_ICONS: Final = {
    "Databases": "database",
    "Files": "file-text",
    "Kafka": "waypoints",
    "Applications": "app-window",
    "Tests": "flask-conical",
    "Java plugins": "coffee",
}
_JAVA: Final = "Java plugins"
_OTHER: Final = "Other"
_ORDER: Final = ("Databases", "Files", "Kafka", "Applications", _OTHER, _JAVA, "Tests")
_KIND: Final = re.compile(r"(Source)?(Connector)?$")
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Card:
    """One plugin, in its newest version. older: other installed versions, the newest first.

    report: the result of the compatibility suite, "" without one. icon: its name in lucide.
    on_workers: which worker has which version, "" if all have the same.
    """

    class_name: str
    title: str
    summary: str
    version: str
    older: Sequence[str]
    category: str
    guarantee: str
    goes_back: bool
    needs: Sequence[str]
    sample: str
    report: str
    icon: str
    on_workers: str = ""

    @property
    def short(self) -> str:
        """The name that users write, shown small beside the title."""
        return self.class_name.rpartition(".")[2]


def card_of(plugin: Mapping[str, Any]) -> Card:
    """Make the card of one plugin. A plugin without a declaration is shown by what is known about its class, or by the
    class and its documentation.
    """
    entry, class_name = _entry_of(plugin), str(plugin.get("class"))
    simple = class_name.rpartition(".")[2].removesuffix("Connector")
    sample = entry.get("sample") or {}
    config = {"connector.class": simple, **sample} if sample else {}
    category = str(entry.get("category") or (_JAVA if plugin.get("java") else _OTHER))
    icon = str(entry.get("icon") or "")
    return Card(
        class_name,
        str(entry.get("title") or name_in_words(class_name)),
        str(entry.get("summary") or _first_paragraph(str(plugin.get("documentation") or ""))),
        str(plugin.get("version") or ""),
        [str(each) for each in (plugin.get("versions") or ())[1:]],
        category,
        str(entry.get("guarantee") or ("" if entry else "No guarantee declared")),
        bool(entry.get("goes_back", True)),
        [str(need) for need in entry.get("needs", ())],
        json.dumps(config, indent=2) if config else "",
        _describe_report(plugin.get("exactly_once_report")),
        icon if icon and has_icon(icon) else _ICONS.get(category, "plug"),
    )


def name_in_words(class_name: str) -> str:
    """Return what a class without a title is called: `acme.BulkApiSourceConnector` is "Bulk Api"."""
    simple = class_name.rpartition(".")[2]
    return " ".join(_WORDS.split(_KIND.sub("", simple) or simple))


def _entry_of(plugin: Mapping[str, Any]) -> Mapping[str, Any]:
    foreign = find_known(str(plugin.get("class")))
    return cast("Mapping[str, Any]", plugin.get("catalog") or (foreign.entry.as_json() if foreign else {}))


@dataclass(frozen=True, slots=True)
class Installable:
    """A plugin that is not installed. coordinates: what to install."""

    title: str
    summary: str
    icon: str
    class_name: str
    coordinates: str


def find_installable(query: str, plugins: Iterable[Mapping[str, Any]]) -> list[Installable]:
    """Return the known plugins that match a search, without those that are installed: `plugins`."""
    installed = {str(name) for plugin in plugins for name in (plugin.get("class"), *plugin.get("names", ()))}
    return [
        Installable(each.entry.title, each.entry.summary, each.entry.icon, name, each.coordinates)
        for name, each in list_installable().items()
        if query and name not in installed and matches({"class": name}, query)
    ]


def group(
    plugins: Iterable[Mapping[str, Any]], workers: Mapping[str, Mapping[str, Sequence[str]]] | None = None
) -> list[tuple[str, list[Card]]]:
    """Return cards by category, in the order of the page; each category sorted by title.

    workers: the versions of each class on each worker, the newest first.
    """
    cards: dict[str, list[Card]] = {}
    for plugin in plugins:
        card = card_of(plugin)
        card = replace(card, on_workers=describe_versions(card.class_name, workers or {}))
        cards.setdefault(card.category, []).append(card)
    order = [*_ORDER, *sorted(cards.keys() - set(_ORDER))]
    return [(name, sorted(cards[name], key=lambda card: card.title.lower())) for name in order if name in cards]


def matches(plugin: Mapping[str, Any], query: str) -> bool:
    """Return whether the plugin's description contains each word of a search."""
    entry = _entry_of(plugin)
    texts_of_plugin = [str(entry.get(part, "")) for part in ("title", "summary", "category", "guarantee", "keywords")]
    texts = [str(plugin.get("class")), str(plugin.get("documentation", "")), *plugin.get("names", ()), *texts_of_plugin]
    text = " ".join(texts).lower()
    return all(word in text for word in query.lower().split())


def describe_versions(class_name: str, workers: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Return which worker has which version of a plugin; "" if all have the same."""
    versions = {worker: tuple(plugins.get(class_name, ())) for worker, plugins in workers.items()}
    if len(set(versions.values())) < 2:
        return ""
    return "; ".join(f"{worker}: {', '.join(each) or 'not installed'}" for worker, each in sorted(versions.items()))


def _describe_report(report: Mapping[str, Any] | None) -> str:
    if not report:
        return ""
    passed, skipped = len(report["passed"]), len(report["skipped"])
    checks = write_count(passed, "check")
    rest = f", {skipped} not applicable" if skipped else ""
    return f"Passed {checks} of the compatibility suite{rest}, on {report['day']}"


def _first_paragraph(text: str) -> str:
    blocks = [block.strip() for block in text.split("\n\n") if block.strip() and not block.lstrip().startswith("#")]
    return " ".join(blocks[0].replace("`", "").replace("**", "").split()) if blocks else ""
