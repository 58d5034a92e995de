"""What the incremental loading of a resource promises: each row once, or less."""

import inspect
from collections.abc import Mapping
from typing import Any

from dlt.extract import DltResource, Incremental


def find_doubt(resource: DltResource, known: Mapping[str, DltResource]) -> str:
    """Why a resource cannot be read exactly once; "" where it can."""
    incrementals = [each for each in map(find_incremental, _with_parents(resource, known)) if each is not None]
    if not incrementals:
        return "it has no incremental, so it is read as a whole each time"
    return next((doubt for each in incrementals if (doubt := _judge(each))), "")


def _judge(incremental: Incremental[Any]) -> str:
    doubts = {
        "its incremental has a lag, which gives rows again": bool(incremental.lag),
        "its incremental has an end_value, so it keeps no state": incremental.end_value is not None,
        "its incremental has an empty primary_key: rows of the last cursor value come again": (
            incremental.primary_key is not None and not incremental.primary_key
        ),
        "its incremental has range_start=open: rows that come later with the last cursor value are missed": (
            incremental.range_start == "open"
        ),
        "its incremental has on_cursor_value_missing=include: rows without a cursor come each time": (
            incremental.on_cursor_value_missing == "include"
        ),
        "its incremental has a last_value_func other than min and max": incremental.last_value_func not in (min, max),
    }
    return next((doubt for doubt, holds in doubts.items() if holds), "")


def _with_parents(resource: DltResource, known: Mapping[str, DltResource]) -> list[DltResource]:
    found = [resource]
    pipe: Any = resource._pipe.parent  # dlt's types deny that there may be none
    while pipe is not None:
        if pipe.name in known:
            found.append(known[pipe.name])
        pipe = pipe.parent
    return found


def why_no_pages(resource: DltResource) -> str:
    """Why a page cannot be committed by itself; "" where it can."""
    incremental = find_incremental(resource)
    if incremental is None:
        return "it has no incremental"
    if resource._pipe.has_parent:
        return "its rows come parent by parent"
    if incremental.row_order != "asc" or incremental.last_value_func is not max:
        return "its incremental does not say row_order=asc"
    return ""


def find_incremental(resource: DltResource) -> Incremental[Any] | None:
    """The one that a resource was given, or that its function has by itself."""
    wrapper = resource.incremental
    given = [wrapper.incremental] if wrapper is not None and hasattr(wrapper, "incremental") else [wrapper]
    given += list(resource.explicit_args.values()) if resource.args_bound else []
    if callable(resource._pipe.gen):
        given += [each.default for each in inspect.signature(resource._pipe.gen).parameters.values()]
    return next((each for each in given if isinstance(each, Incremental)), None)


def primary_key(resource: DltResource) -> tuple[str, ...]:
    """The columns that tell rows apart, as far as the resource says so."""
    found: Any = (resource._hints or {}).get("primary_key")
    if isinstance(found, str):
        return (found,)
    return tuple(found) if isinstance(found, list | tuple) else ()
