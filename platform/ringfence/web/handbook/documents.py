"""The product's documents (docs/*.md, in the wheel ringfence/docs): their sections, and each as HTML."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from django.utils.safestring import SafeString, mark_safe

import ringfence
from ringfence.web.markdown import WEB, lead_links, renderer

if TYPE_CHECKING:
    from markdown_it.token import Token

FOLDER = Path(ringfence.__file__).parent / "docs"
ADDRESS = "/ui/docs"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading. level: 1 for the document's title, whose address has no anchor."""

    document: str
    title: str
    anchor: str
    level: int

    @property
    def address(self) -> str:
        return f"{ADDRESS}/{self.document}" + (f"#{self.anchor}" if self.level > 1 else "")


@dataclass(frozen=True, slots=True)
class Document:
    """name: the file's, without `.md`."""

    name: str
    title: str
    sections: tuple[Section, ...]
    html: SafeString


@cache
def documents() -> dict[str, Document]:
    """Return all documents by name. They ship with the release, so they are read once."""
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.md"))}


def search_headings(words: str) -> list[Section]:
    """Return the sections whose heading, together with the document's title, contains every word; titles first."""
    terms = words.casefold().split()
    sections = [
        section
        for document in documents().values()
        for section in document.sections
        if all(word in f"{document.title} {section.title}".casefold() for word in terms)
        and any(word in section.title.casefold() for word in terms)
    ]
    return sorted(sections, key=lambda section: section.level)


def _read(path: Path) -> Document:
    tokens = renderer().parse(path.read_text(encoding="utf-8"))
    sections = tuple(_name_headings(path.stem, tokens))
    for token in tokens:
        if token.children:
            token.children = list(lead_links(token.children, _target))
    html = str(renderer().renderer.render(tokens, renderer().options, {}))
    # Wide tables and code scroll by themselves, also by keyboard. Text cannot contain these tags: it is escaped.
    html = html.replace("<table>", '<div class="wide-table" tabindex="0"><table>').replace("</table>", "</table></div>")
    html = html.replace("<pre>", '<pre tabindex="0">')
    title = next((section.title for section in sections if section.level == 1), path.stem)
    return Document(path.stem, title, sections, mark_safe(html))  # noqa: S308 - rendered without raw HTML


def _name_headings(document: str, tokens: "Sequence[Token]") -> Iterator[Section]:
    """Give each heading the same anchor as GitHub does, so that links work in both places."""
    counts: dict[str, int] = {}
    for heading, inline in pairwise(tokens):
        if heading.type != "heading_open":
            continue
        title = "".join(child.content for child in inline.children or ())
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = counts.get(anchor, 0)
        counts[anchor] = count + 1
        anchor += f"-{count}" if count else ""
        heading.attrSet("id", anchor)
        yield Section(document, title, anchor, int(heading.tag[1]))


def _target(link: str) -> str | None:
    """Return the page that a link between documents leads to; None for a file that is not served here."""
    if link.startswith(("#", *WEB)):
        return link
    page, mark, anchor = link.partition("#")
    if "/" in page or not page.endswith(".md"):
        return None
    return f"{ADDRESS}/{page.removesuffix('.md')}{mark}{anchor}"
