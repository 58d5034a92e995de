"""The catalog of plugins, as cards in categories. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from ringfence.connectors.plural_forms import write_count

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


@dataclass(frozen=True, slots=True)
class Card:
    """One plugin, in its newest version. older: other installed versions, the newest first.

    report: the result of the compatibility suite, "" without one.
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
    on_workers: str = ""

    @property
    def icon(self) -> str:
        return _ICONS.get(self.category, "plug")

    @property
    def short(self) -> str:
        """The name that users write, shown small beside the title."""
        return self.class_name.rpartition(".")[2]


def card_of(plugin: Mapping[str, Any]) -> Card:
    """Make the card of one plugin. A plugin without a declaration is shown by its class and its documentation."""
    entry = cast("Mapping[str, Any]", plugin.get("catalog") or {})
    class_name = str(plugin.get("class"))
    simple = class_name.rpartition(".")[2].removesuffix("Connector")
    sample = entry.get("sample") or {}
    config = {"connector.class": simple, **sample} if sample else {}
    return Card(
        class_name,
        str(entry.get("title") or simple),
        str(entry.get("summary") or _first_paragraph(str(plugin.get("documentation") or ""))),
        str(plugin.get("version") or ""),
        [str(each) for each in (plugin.get("versions") or ())[1:]],
        str(entry.get("category") or (_JAVA if plugin.get("java") else _OTHER)),
        str(entry.get("guarantee") or ("" if entry else "No guarantee declared")),
        bool(entry.get("goes_back", True)),
        [str(need) for need in entry.get("needs", ())],
        json.dumps(config, indent=2) if config else "",
        _describe_report(plugin.get("exactly_once_report")),
    )


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
    entry = cast("Mapping[str, Any]", plugin.get("catalog") or {})
    texts_of_plugin = [str(entry.get(part, "")) for part in ("title", "summary", "category", "guarantee")]
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
