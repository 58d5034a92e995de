"""Turns an HTTP request into a ticket: size, signature, idempotency key, body. Pure, except for the queue."""

from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from ringfence.connectors.api import ParsedConfig, Password
from ringfence.connectors.builtin.webhook import settings as names
from ringfence.connectors.builtin.webhook.idempotency_keys import digest_of, digest_of_body
from ringfence.connectors.builtin.webhook.request_queue import Answer, RequestQueue, Tell, Ticket
from ringfence.connectors.builtin.webhook.signatures import (
    headers_read,
    key_header,
    leaves_key_unsigned,
    signature_check,
)

LONGEST_KEY: Final = 255
_DEEPEST: Final = 100
_I64: Final = 1 << 63


class RequestRejected(Exception):
    """The request is refused, with this answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.answer = Answer(status, text)


class Receiver:
    """The rules of one configuration."""

    def __init__(self, config: ParsedConfig) -> None:
        secrets = [config.get(name) for name in (names.SECRET, names.SECRET_BEFORE)]
        signature, signature_header = config.string(names.SIGNATURE), config.string(names.SIGNATURE_HEADER)
        self._check = signature_check(
            signature,
            [secret.value for secret in secrets if isinstance(secret, Password)],
            signature_header,
            config.integer(names.TOLERANCE),
        )
        self._format = config.string(names.BODY_FORMAT)
        self._key = config.string(names.KEY).strip()
        self._header_names = [name.strip() for name in config.strings(names.HEADERS) if name.strip()]
        self.most_body = config.integer(names.MOST_BODY)
        self.replays_checked = config.string(names.REPLAY) == names.BODY and leaves_key_unsigned(signature, self._key)
        """Whether the same body is refused under another key."""
        needed = (*headers_read(signature, signature_header), key_header(self._key), *self._header_names)
        self.needed_headers: Final = sorted({name.lower() for name in needed if name})
        """The names of all headers that `read` looks at, in lower case."""

    @property
    def keyed(self) -> bool:
        """Whether requests have idempotency keys."""
        return bool(self._key)

    def receive(
        self, headers: Sequence[Sequence[str]], body: bytes, requests: RequestQueue, tell: Tell, now_ms: int
    ) -> Answer | Ticket:
        """Return an immediate answer, or the ticket that `tell` waits for."""
        try:
            ticket = self.read(headers, body, now_ms)
        except RequestRejected as refused:
            return refused.answer
        return requests.offer(ticket, tell, now_ms)

    def read(self, headers: Sequence[Sequence[str]], body: bytes, now_ms: int, *, signed: bool = True) -> Ticket:
        """Validate a request. Raises `RequestRejected`. signed: check the signature, before the body is parsed."""
        by_name = {name.lower(): value for name, value in reversed([*headers])}
        if len(body) > self.most_body:
            raise RequestRejected(413, f"The body is larger than {self.most_body:,} bytes.")
        if signed and (why := self._check(by_name, body, now_ms)):
            raise RequestRejected(401, why)
        value = self._value(body)
        key = self._find_key(by_name, value, body)
        header_pairs = tuple((name, by_name[name.lower()]) for name in self._header_names if name.lower() in by_name)
        body_digest = digest_of_body(body) if self.replays_checked else None
        return Ticket(value, header_pairs, len(body), now_ms, key, digest_of(key) if key else None, body_digest)

    def _value(self, body: bytes) -> object:
        if self._format == names.BYTES:
            return body
        if self._format == names.JSON:
            return _parse(body)
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise RequestRejected(400, "The body is not UTF-8.") from None

    def _find_key(self, headers: Mapping[str, str], value: object, body: bytes) -> str:
        if not self._key:
            return ""
        if self._key.startswith(names.HEADER_KEY):
            where = self._key.removeprefix(names.HEADER_KEY).strip()
            key: object = headers.get(where.lower())
        else:
            where = self._key
            content = value if self._format == names.JSON else _parse(body)
            key = follow(content, self._key.removeprefix(names.BODY_KEY))
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        if not isinstance(key, str) or not key.strip():
            raise RequestRejected(400, f"The request has no idempotency key: {where} is missing or empty.")
        if len(key) > LONGEST_KEY:
            raise RequestRejected(400, f"The idempotency key has more than {LONGEST_KEY} characters.")
        return key.strip()


def _parse(body: bytes) -> object:
    """Parse JSON that every converter can write: a sender must not be able to fail the task."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise RequestRejected(400, "The body is not JSON.") from None
    if not _is_plain(value):
        raise RequestRejected(
            400, f"The body nests deeper than {_DEEPEST} levels, or has an integer of more than 64 bits."
        )
    return value


def _is_plain(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        if not level:
            return True
        deeper: list[object] = []
        for each in level:
            if isinstance(each, dict):
                deeper.extend(each.values())
            elif isinstance(each, list):
                deeper.extend(each)
            elif isinstance(each, int) and not -_I64 <= each < _I64:
                return False
        level = deeper
    return not level


def follow(value: object, pointer: str) -> object:
    """Return what a JSON pointer (RFC 6901) refers to; None if it refers to nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            return None
    return value
