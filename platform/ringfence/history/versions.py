"""Versions of configurations: added as the config topic is projected, so that changes by any API are included."""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Max, QuerySet

from ringfence.access.principal import Principal, Verb
from ringfence.encryption import NoKey, decrypt_text, encrypt_text
from ringfence.history.models import ConfigVersion
from ringfence.plain_queries import among, insert, read, select
from ringfence.projection.models import Connector
from ringfence.projection.records import clean
from ringfence.projection.signals import WrittenConfig


def list_deleted(who: Principal) -> QuerySet[ConfigVersion]:
    """Return the newest version of each whose configuration `who` may see."""
    there = Connector.objects.filter(known=True).values("name")
    deleted = ConfigVersion.objects.filter(who.query(Verb.VIEW_CONFIG, "connector")).exclude(connector__in=there)
    return ConfigVersion.objects.filter(pk__in=deleted.values("connector").annotate(newest=Max("pk")).values("newest"))


log = logging.getLogger(__name__)


def _pack(config: Mapping[str, str]) -> str:
    return json.dumps(dict(config), sort_keys=True, separators=(",", ":"))


def _clear(row: ConfigVersion) -> str:
    """Return "" if it cannot be decrypted: then the next one counts as changed, and the projection continues."""
    try:
        return decrypt_text(row.config, f"version of {row.connector}")
    except NoKey as error:
        log.warning("Version %d of connector %s cannot be compared: %s", row.number, row.connector, error)
        return ""


def keep(configs: Iterable[WrittenConfig]) -> None:
    """Add the configurations that differ from the previous version, inside the projector's transaction, which has no
    concurrent writer.
    """
    changes = list(configs)
    names = {change.connector for change in changes}
    if not names:
        return
    table = ConfigVersion._meta.db_table
    last = f"id IN (SELECT MAX(id) FROM {table} WHERE {among('connector', names)} GROUP BY connector)"  # noqa: S608
    newest = {row.connector: (row.number, _clear(row)) for row in read(ConfigVersion, last, *names)}
    rows = []
    for change in changes:
        number, config = newest.get(change.connector, (0, ""))
        packed = _pack(change.config)
        if packed == config:
            continue  # an unchanged copy with a newer offset, as a resume writes
        newest[change.connector] = (number + 1, packed)
        rows.append(
            ConfigVersion(
                connector=clean(change.connector),
                number=number + 1,
                config_offset=change.config_offset,
                time_ms=change.time_ms,
                config=encrypt_text(packed, f"version of {clean(change.connector)}"),
            )
        )
    insert(rows)


def keep_from_signal(configs: Iterable[WrittenConfig], **_: object) -> None:
    """Add versions. The receiver of `configurations_read`."""
    keep(configs)


def newest_offset(connector: str) -> int:
    """Return the offset of the connector's newest version, -1 if there is none."""
    newest: int | None = select(ConfigVersion, "MAX(config_offset)", "connector = %s", connector)[0][0]
    return -1 if newest is None else newest


def record_author(connector: str, user: str, after: int, upto: int | None) -> None:
    """Record the author of the version between two config offsets, if there is one: an unchanged
    configuration has none.
    """
    if not user or upto is None:
        return
    versions = ConfigVersion.objects.filter(connector=connector, config_offset__gt=after, config_offset__lte=upto)
    newest = versions.order_by("-config_offset").first()
    if newest is not None:
        ConfigVersion.objects.filter(pk=newest.pk, user="").update(user=user)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two configurations: added keys, removed keys, and (before, after) of changed ones."""

    added: Mapping[str, str]
    removed: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> Difference:
    return Difference(
        {key: after[key] for key in sorted(after.keys() - before.keys())},
        {key: before[key] for key in sorted(before.keys() - after.keys())},
        {key: (before[key], after[key]) for key in sorted(before.keys() & after.keys()) if before[key] != after[key]},
    )
