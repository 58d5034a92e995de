"""Documentation as HTML: CommonMark with tables, without raw HTML, and with links to the web only."""

from collections.abc import Sequence
from functools import lru_cache

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

_RENDERER = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


@lru_cache(maxsize=256)
def render_markdown(text: str) -> SafeString:
    """Safe whoever wrote the text: HTML in it is shown as text. Links within a package lead nowhere and are text."""
    tokens = _RENDERER.parse(text)
    for token in tokens:
        if token.children:
            token.children = _without_local_links(token.children)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"  # the page has a title of its own
    html = str(_RENDERER.renderer.render(tokens, _RENDERER.options, {}))
    return mark_safe(html)  # noqa: S308 - rendered without raw HTML


def _without_local_links(children: Sequence[Token]) -> list[Token]:
    kept, dropped = [], []
    for token in children:
        if token.type == "link_open":
            local = not str(token.attrGet("href") or "").startswith(("https://", "http://"))
            dropped.append(local)
            token.attrSet("rel", "noreferrer")
            if local:
                continue
        elif token.type == "link_close" and dropped.pop():
            continue
        kept.append(token)
    return kept
