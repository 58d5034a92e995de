"""What the incremental loading of a resource guarantees: each row once, or less."""

import inspect
from collections.abc import Mapping
from typing import Any

from dlt.extract import DltResource, Incremental

from ringfence.connectors.builtin.dlt_source.settings import CHANGES


def find_doubt(resource: DltResource, resources: Mapping[str, DltResource], *, changes_only: bool) -> str:
    """Return why a resource cannot be read exactly once; "" if it can. changes_only: see the setting."""
    incrementals = _find_incrementals(resource, resources)
    if not incrementals and changes_only:
        return why_no_changes(resource, resources)
    if not incrementals:
        return f"it has no incremental, so it is read as a whole each time ({CHANGES}=true delivers only what is new)"
    return next((doubt for each in incrementals if (doubt := _judge(each))), "")


def is_read_whole(resource: DltResource, resources: Mapping[str, DltResource]) -> bool:
    """Return whether neither the resource nor its parents have an incremental."""
    return not _find_incrementals(resource, resources)


def why_no_changes(resource: DltResource, resources: Mapping[str, DltResource]) -> str:
    """Return why changed rows cannot be found; "" if they can, or if rows are not compared."""
    return "it has no primary_key" if is_read_whole(resource, resources) and not primary_key(resource) else ""


def _find_incrementals(resource: DltResource, resources: Mapping[str, DltResource]) -> list[Incremental[Any]]:
    return [each for each in map(find_incremental, _with_parents(resource, resources)) if each is not None]


def _judge(incremental: Incremental[Any]) -> str:
    doubts = {
        "its incremental has a lag, which repeats rows": bool(incremental.lag),
        "its incremental has an end_value, so it keeps no state": incremental.end_value is not None,
        "its incremental has an empty primary_key: rows with the last cursor value are repeated": (
            incremental.primary_key is not None and not incremental.primary_key
        ),
        "its incremental has range_start=open: rows that appear later with the last cursor value are missed": (
            incremental.range_start == "open"
        ),
        "its incremental has on_cursor_value_missing=include: rows without a cursor are repeated each time": (
            incremental.on_cursor_value_missing == "include"
        ),
        "its incremental has a last_value_func other than min and max": incremental.last_value_func not in (min, max),
    }
    return next((doubt for doubt, holds in doubts.items() if holds), "")


def _with_parents(resource: DltResource, resources: Mapping[str, DltResource]) -> list[DltResource]:
    chain = [resource]
    pipe: Any = resource._pipe.parent  # it may be None, which dlt's types deny
    while pipe is not None:
        if pipe.name in resources:
            chain.append(resources[pipe.name])
        pipe = pipe.parent
    return chain


def why_no_pages(resource: DltResource) -> str:
    """Return why pages cannot be committed one by one; "" if they can."""
    incremental = find_incremental(resource)
    if incremental is None:
        return "it has no incremental"
    if resource._pipe.has_parent:
        return "its rows are read parent by parent"
    if incremental.row_order != "asc" or incremental.last_value_func is not max:
        return "its incremental does not say row_order=asc"
    return ""


def find_incremental(resource: DltResource) -> Incremental[Any] | None:
    """Return the incremental that the resource was given, or its function's default."""
    wrapper = resource.incremental
    candidates = [wrapper.incremental] if wrapper is not None and hasattr(wrapper, "incremental") else [wrapper]
    candidates += list((resource.explicit_args or {}).values()) if resource.args_bound else []
    if callable(resource._pipe.gen):
        candidates += [each.default for each in inspect.signature(resource._pipe.gen).parameters.values()]
    return next((each for each in candidates if isinstance(each, Incremental)), None)


def primary_key(resource: DltResource) -> tuple[str, ...]:
    """Return the columns of the primary key; () if the resource names none."""
    key: Any = (resource._hints or {}).get("primary_key")
    if isinstance(key, str):
        return (key,)
    return tuple(key) if isinstance(key, list | tuple) else ()
