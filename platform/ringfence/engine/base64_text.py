"""Bytes that may be missing, as the JSON of requests and plugin calls carries them."""

import base64


def encode(data: bytes | bytearray | memoryview | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
