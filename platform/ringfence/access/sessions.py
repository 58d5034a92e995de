"""Stores sessions with a hash of their key, so that a reader of the table, or of a copy, cannot take over a session.

The cookie holds Django's key, as usual. Sessions of earlier versions are not found, so everybody logs in once more.
"""

import base64
import hashlib
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.utils import timezone


def hash_key(session_key: str) -> str:
    """Return the hash of a cookie's key in the table: 240 bits of its SHA-256, as much as the column holds."""
    return base64.urlsafe_b64encode(hashlib.sha256(session_key.encode()).digest()[:30]).decode()


class SessionStore(db.SessionStore):
    """Django's database sessions. The asynchronous methods are the synchronous ones on a thread."""

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        key = self.session_key
        rows = self.model.objects.filter(session_key=hash_key(key or ""), expire_date__gt=timezone.now())
        row: AbstractBaseSession | None = rows.first() if key else None
        if row is None:
            self._session_key = None
        return row

    async def _aget_session_from_db(self) -> AbstractBaseSession | None:
        return await sync_to_async(self._get_session_from_db)()

    def exists(self, session_key: str) -> bool:
        return bool(super().exists(hash_key(session_key)))

    async def aexists(self, session_key: str) -> bool:
        return await sync_to_async(self.exists)(session_key)

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        row: AbstractBaseSession = super().create_model_instance(data)
        row.session_key = hash_key(row.session_key)
        return row

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        return await sync_to_async(self.create_model_instance)(data)

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            super().delete(hash_key(key))

    async def adelete(self, session_key: str | None = None) -> None:
        await sync_to_async(self.delete)(session_key)
