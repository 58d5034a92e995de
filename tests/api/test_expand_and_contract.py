"""Migrations only add: processes of the last release go on beside the new tables, and can be brought back."""

from itertools import count
from typing import Any, Final

import pytest
from django.apps.registry import Apps
from django.db import connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models.fields import NOT_PROVIDED

from tests.support import database

RELEASED: Final = {
    "access": "0007_used_states",
    "alerts": "0007_not_running",
    "audit": "0002_names",
    "heartbeats": "0002_projection_error",
    "history": "0006_plugin_installations",
    "mirror": "0022_troubles",
}
"""The last migrations of 0.3.0, the last release. Its successor's replace them when it is released."""

UNUSED: Final[frozenset[str]] = frozenset()
"""Tables and columns, `app.model` or `app.model.field`, that the last release has and does not use: they may go."""

_numbers: Final = count(1)


@pytest.fixture(scope="module")
def loader() -> MigrationLoader:
    database.migrate()
    return MigrationLoader(connection)


@pytest.fixture(scope="module")
def last(loader: MigrationLoader) -> Apps:
    """The tables of the last release."""
    return loader.project_state([*RELEASED.items()]).apps


@pytest.fixture(scope="module")
def now(loader: MigrationLoader) -> Apps:
    return loader.project_state().apps


def ours(apps: Apps) -> dict[str, type[models.Model]]:
    return {model._meta.label_lower: model for model in apps.get_models() if model._meta.app_label in RELEASED}


def columns(model: type[models.Model]) -> dict[str, Any]:
    return {str(field.column): field for field in model._meta.concrete_fields}


def test_every_app_of_the_last_release_is_looked_at(loader: MigrationLoader) -> None:
    assert RELEASED.keys() <= loader.migrated_apps
    assert {model._meta.app_label for model in loader.project_state().apps.get_models()} - RELEASED.keys() <= {
        "auth",
        "contenttypes",
        "sessions",
    }


def test_nothing_that_the_last_release_uses_is_gone(last: Apps, now: Apps) -> None:
    present = ours(now)
    for label, model in ours(last).items():
        if label in UNUSED:
            continue
        assert label in present, f"{label} is gone, and the last release uses it: remove it one release later"
        assert present[label]._meta.db_table == model._meta.db_table, f"{label} has another name"
        kept = columns(present[label])
        for name, field in columns(model).items():
            if f"{label}.{field.name}" in UNUSED:
                continue
            assert name in kept, f"{label}.{name} is gone, and the last release uses it: remove it one release later"
            was, is_ = (one.db_parameters(connection)["type"] for one in (field, kept[name]))
            assert was == is_, f"{label}.{name} was {was} and is {is_}: add another column"
            assert kept[name].null or not field.null, f"{label}.{name} takes no null any more"


def test_the_last_release_can_leave_new_columns_out(last: Apps, now: Apps) -> None:
    before = ours(last)
    for label, model in ours(now).items():
        for name, field in columns(model).items() if label in before else ():
            if name not in columns(before[label]):
                has_default = field.null or field.db_default is not NOT_PROVIDED
                assert has_default, f"{label}.{name} needs db_default: rows of the last release do not have it"


def make(model: type[models.Model]) -> models.Model:
    """A row, with no more than what must be there."""
    values: dict[str, object] = {}
    for field in model._meta.concrete_fields:
        if field.null or field.has_default() or isinstance(field, models.AutoField):
            continue
        values[field.name] = _value(field)
    row = model(**values)
    row.save(force_insert=True)
    return row


def _value(field: Any) -> object:
    if isinstance(field, models.ForeignKey):
        return make(field.related_model)
    number = next(_numbers)
    if isinstance(field, models.CharField | models.TextField):
        return str(number)
    if isinstance(field, models.DateTimeField):
        return "2026-11-29T00:00:00Z"
    if isinstance(field, models.BinaryField):
        return str(number).encode()
    return False if isinstance(field, models.BooleanField) else number


def test_the_last_release_writes_its_rows(last: Apps) -> None:
    """For certain: with the models that it has, into the tables of today."""
    for model in ours(last).values():
        with transaction.atomic():
            make(model)
            transaction.set_rollback(True)
