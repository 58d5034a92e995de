"""Decodes a record's bytes into readable text: JSON, text, or hexadecimal, never control characters."""

import base64
import json
from dataclasses import dataclass

_HEX_BYTES = 256
_PLAIN = "\n\r\t"


@dataclass(frozen=True, slots=True)
class RecordText:
    """kind: null, empty, JSON, text, or hex; size: of the whole, in bytes; cut: whether only its beginning is shown."""

    kind: str
    text: str
    size: int
    cut: bool


def decode(base64_text: str | None, size: int) -> RecordText:
    """Decode the Base64 of the beginning of a field; None for null."""
    if base64_text is None:
        return RecordText("null", "null", 0, cut=False)
    data = base64.b64decode(base64_text)
    cut = len(data) < size
    if not data:
        return RecordText("empty", "empty", 0, cut=False)
    text = _as_text(data, cut=cut)
    if text is None:
        schema = f"schema id {int.from_bytes(data[1:5])}: " if data[0] == 0 and len(data) > 5 else ""
        return RecordText("hex", schema + data[:_HEX_BYTES].hex(" "), size, cut=cut or len(data) > _HEX_BYTES)
    if not cut and (pretty := _as_json(text)) is not None:
        return RecordText("JSON", pretty, size, cut=False)
    return RecordText("text", text, size, cut=cut)


def _as_text(data: bytes, *, cut: bool) -> str | None:
    """Decode UTF-8, if every character is printable. A character cut in half at the end is dropped."""
    for shorter in range(4 if cut else 1):
        try:
            text = data[: len(data) - shorter].decode()
        except UnicodeDecodeError:
            continue
        return text if all(char.isprintable() or char in _PLAIN for char in text) else None
    return None


def _as_json(text: str) -> str | None:
    """Indent an object or a list. Return None for single values, which are readable as text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        pretty = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    # A character that was escaped must stay escaped.
    return pretty if all(char.isprintable() or char == "\n" for char in pretty) else text
