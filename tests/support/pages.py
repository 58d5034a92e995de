"""What a page says: its HTML without the white space that a browser ignores, so that tests hold no line breaks."""

import re
from typing import Any, Final

_TAG: Final = re.compile(r"(<!?/?[A-Za-z](?:\"[^\"]*\"|'[^']*'|[^>\"'])*>)")
_IN_A_TAG: Final = re.compile(r"(\"[^\"]*\"|'[^']*')|\s+")
_KEEPS_SPACE: Final = re.compile(r"<(pre|textarea|script|style)\b", re.IGNORECASE)
_BLOCK: Final = re.compile(
    r"</?(?:!doctype|html|head|body|meta|link|title|script|header|footer|main|nav|section|aside|div|p|ul|ol|li|dl|dt|dd"
    r"|table|caption|thead|tbody|tr|th|td|form|fieldset|legend|details|summary|dialog|h[1-6]|pre|hr|noscript"
    r"|option|select|datalist|button|input|textarea|label|svg|path|rect|circle)\b",
    re.IGNORECASE,
)


def squeeze(html: str) -> str:
    """One space for each run of them, none beside the tags of blocks and controls, none before the end of a tag.

    Attributes in quotes and what stands in `pre`, `textarea`, scripts and styles stay as they are.
    """
    texts, tags = _TAG.split(html)[::2], _TAG.split(html)[1::2]
    squeezed = []
    kept = ""
    for index, raw in enumerate(texts):
        before, after = tags[index - 1] if index else "<html>", tags[index] if index < len(tags) else "</html>"
        words = raw
        if not kept:
            words = re.sub(r"\s+", " ", raw)
            words = words.lstrip() if _BLOCK.match(before) else words
            words = words.rstrip() if _BLOCK.match(after) else words
        squeezed.append(words)
        if index < len(tags):
            squeezed.append(re.sub(r" (?=/?>$)", "", _IN_A_TAG.sub(lambda part: part[1] or " ", after)))
            opens = _KEEPS_SPACE.match(after)
            kept = opens[1].lower() if opens else "" if after.lower() == f"</{kept}>" else kept
    return "".join(squeezed)


def text(response: Any) -> str:
    """The page of an answer, squeezed."""
    return squeeze(response.content.decode())
