"""`Idempotency-Key`: a POST that is repeated with its key gets the stored answer, and is not carried out again.

Only outcomes are stored: done, or unknown (500, 502, 504). A request that was refused before anything changed may be
sent again.
"""

import hashlib
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse

from ringfence.access.principal import Principal
from ringfence.encryption import decrypt_text, encrypt_text
from ringfence.fencing.clock import epoch_ms
from ringfence.history.models import RepeatedRequest

HEADER = "Idempotency-Key"
_LONGEST = 255
SCHEMA = {"type": "string", "minLength": 1, "maxLength": _LONGEST, "pattern": "^[!-~]([ -~]*[!-~])?$"}
_KEPT_MS = 24 * 3600 * 1000
_KEPT_STATUSES = (500, 502, 504)


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class KeyRefusal:
    """Why a key cannot be used."""

    status: int
    message: str


class IdempotentRequest:
    """One request with its key. 1 `begin` returns a stored answer, a refusal, or None: carry it out, 2 `end`."""

    def __init__(self, request: HttpRequest, who: Principal) -> None:
        self._header = request.headers[HEADER]
        self._key = _digest(who.name.encode(), who.via.encode(), self._header.encode())
        self._request_digest = _digest(str(request.method).encode(), request.get_full_path().encode(), request.body)

    def begin(self) -> HttpResponse | KeyRefusal | None:
        if not (0 < len(self._header) <= _LONGEST and self._header.isascii() and self._header.isprintable()):
            return KeyRefusal(400, f"{HEADER} must be 1 to {_LONGEST} printable ASCII characters, a UUID for example.")
        now_ms = epoch_ms()
        RepeatedRequest.objects.filter(time_ms__lt=now_ms - _KEPT_MS).delete()
        try:
            with transaction.atomic():
                RepeatedRequest.objects.create(key=self._key, asked=self._request_digest, time_ms=now_ms)
        except IntegrityError:
            return self._find_known()
        return None

    def _find_known(self) -> HttpResponse | KeyRefusal:
        row = RepeatedRequest.objects.filter(key=self._key).first()
        if row is not None and row.asked != self._request_digest:
            return KeyRefusal(422, f"This {HEADER} was used for another request: use a new one.")
        if row is None or not row.status:
            return KeyRefusal(
                409,
                f"A request with this {HEADER} is being carried out, or was when its server died. Check whether it "
                "took effect; if not, repeat it with a new key.",
            )
        body = decrypt_text(row.body, f"answer {self._key}")
        answer = HttpResponse(body, status=row.status, content_type="application/json")
        if row.location:
            answer["Location"] = row.location
        answer["Idempotency-Replayed"] = "true"
        return answer

    def end(self, status: int, body: bytes, location: str) -> None:
        rows = RepeatedRequest.objects.filter(key=self._key)
        if status < 400 or status in _KEPT_STATUSES:
            body_text = encrypt_text(body.decode(), f"answer {self._key}")
            rows.update(status=status, body=body_text, location=location)
        else:
            rows.delete()
