"""Encodes bytes, or None, for the JSON of requests and plugin calls."""

import base64


def encode(data: bytes | bytearray | memoryview | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
