"""All encrypted columns: counts their values by key, and encrypts them under the newest one.

Earlier releases stored clear text. A worker encrypts it when it starts, and so does `ringfence keys rotate` after
adding a key. Each update is a compare-and-set: a row that is written concurrently is under the newest key anyway.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from django.db import connection, models
from django.db.models.functions import Cast

from ringfence.alerts.encrypted_field import ABOUT
from ringfence.alerts.models import Destination
from ringfence.encryption import NoKey, decrypt_text, encrypt_text, key_id, keyring
from ringfence.history.models import ConfigVersion, RepeatedRequest
from ringfence.projection import endpoints
from ringfence.projection.models import Connector, Task

log = logging.getLogger(__name__)

_Column = tuple[type[models.Model], str, tuple[str, ...], Callable[..., str]]
_COLUMNS: tuple[_Column, ...] = (
    (Connector, "config", ("name",), lambda name: f"connector {name}"),
    (Task, "config", ("connector", "number"), lambda connector, number: f"task {connector}-{number}"),
    (Task, "endpoint", ("connector", "number"), endpoints.describe),
    (Task, "failure", ("connector", "number"), lambda connector, number: f"failure {connector}-{number}"),
    (ConfigVersion, "config", ("connector",), lambda connector: f"version of {connector}"),
    (RepeatedRequest, "body", ("key",), lambda key: f"answer {key}"),
    (Destination, "url", (), lambda: ABOUT),
    (Destination, "secret", (), lambda: ABOUT),
)
_NOTHING = ("", "{}")


def survey() -> dict[str, int]:
    """Return the number of values under each key; "" for clear text."""
    return dict(Counter(key_id(text) for _, _, _, text, _ in _values()))


def renew() -> int:
    """Encrypt all values that are in clear text or under an older key, and return how many. A value whose key is
    missing stays.
    """
    newest, done, was_clear = keyring().keys[0].id, 0, False
    for model, column, pk, text, about in _values():
        if key_id(text) == newest:
            continue
        try:
            value = encrypt_text(decrypt_text(text, about), about)
        except NoKey as error:
            log.warning("A stored value of %s stays as it is: %s", about, error)
            continue
        was_clear |= not key_id(text)
        done += _replace(model, column, pk, text, value)
    if was_clear and connection.vendor == "sqlite":
        _wipe()
    return done


def _values() -> Iterator[tuple[type[models.Model], str, Any, str, str]]:
    """Yield model, column, primary key, stored text, and the context that it is bound to."""
    for model, column, columns, about in _COLUMNS:
        rows = model._default_manager.exclude(**{f"{column}__in": _NOTHING}).annotate(
            stored=Cast(column, models.TextField())
        )
        for pk, text, *names in rows.values_list("pk", "stored", *columns).iterator(chunk_size=500):
            yield model, column, pk, text, about(*names)


def _replace(model: type[models.Model], column: str, pk: Any, before: str, after: str) -> int:
    table, key = model._meta.db_table, model._meta.pk
    assert key is not None
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {quote(table)} SET {quote(column)} = %s WHERE {quote(str(key.column))} = %s "  # noqa: S608 - names of models
            f"AND {quote(column)} = %s",
            [after, pk, before],
        )
        return int(cursor.rowcount)


def _wipe() -> None:
    """Erase overwritten values, which SQLite leaves in free pages and in its log."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
