"""Renders documentation as HTML: CommonMark with tables, without raw HTML, and with links to the web only."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from django.utils.safestring import SafeString, mark_safe

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token


def _demote_empty_heads(state: "StateCore") -> None:
    """Turn empty header cells into ordinary ones: a screen reader would announce a heading without a name."""
    for opening, inline, closing in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if opening.type == "th_open" and not inline.content:
            opening.tag = closing.tag = "td"


@cache
def renderer() -> "MarkdownIt":
    """Return what parses and renders. It is loaded with the first text."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    parser.core.ruler.push("demote_empty_heads", _demote_empty_heads)
    return parser


WEB: Final = ("https://", "http://")


@lru_cache(maxsize=256)
def render_markdown(text: str) -> SafeString:
    """Render Markdown from any author safely: HTML in it is shown as text. Links within a package become text."""
    tokens = renderer().parse(text)
    for token in tokens:
        if token.children:
            token.children = list(lead_links(token.children, _web_only))
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"  # the page has its own title
    html = str(renderer().renderer.render(tokens, renderer().options, {}))
    return mark_safe(html)  # noqa: S308 - rendered without raw HTML


def lead_links(children: Sequence["Token"], target: Callable[[str], str | None]) -> Iterator["Token"]:
    """Yield the tokens, with links changed to `target(link)`. For None, the link becomes its text."""
    drops: list[bool] = []
    for token in children:
        if token.type == "link_open":
            address = target(str(token.attrGet("href") or ""))
            drops.append(address is None)
            if address is None:
                continue
            token.attrSet("href", address)
            if not address.startswith(("#", "/")):
                token.attrSet("rel", "noreferrer")
        elif token.type == "link_close" and drops.pop():
            continue
        yield token


def _web_only(link: str) -> str | None:
    return link if link.startswith(WEB) else None
