"""The resources that a configuration names, and what their incremental loading promises."""

import inspect
import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from dlt.common.configuration.container import Container
from dlt.common.configuration.specs.config_providers_context import ConfigProvidersContainer
from dlt.common.configuration.specs.pluggable_run_context import PluggableRunContext
from dlt.extract import DltResource, DltSource, Incremental
from dlt.sources.rest_api import rest_api_resources

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.dlt_source import settings as names
from ringfence.connectors.builtin.dlt_source.rest_config import (
    find_secrets,
    parse_auth,
    parse_object,
    parse_rest_config,
)
from ringfence.connectors.builtin.dlt_source.sessions import open_session


class Opened(NamedTuple):
    """wanted: the resources to read, by name, in the source's order; known: all of the source, parents among them."""

    wanted: dict[str, DltResource]
    known: dict[str, DltResource]


def open_resources(config: ParsedConfig) -> Opened:
    """Asks no API. Raises `ConnectorError`."""
    # dlt would fill what a configuration leaves out from the worker's environment and files: another's secrets.
    Container()[PluggableRunContext].providers = ConfigProvidersContainer([])
    name = config.string(names.SOURCE)
    try:
        found = _open_rest_api(config) if name == names.REST_API else _open_installed(name, config)
    except ConnectorError:
        raise
    except Exception as error:  # noqa: BLE001 - dlt's, or the source's own
        setting = names.REST if name == names.REST_API else names.ARGUMENTS
        raise ConnectorError(f"{setting}: dlt refuses this: {redact(config, error)}") from None
    wanted = config.strings(names.RESOURCES)
    if missing := [each for each in wanted if each not in found]:
        raise ConnectorError(f"{names.RESOURCES}: there is no resource {missing[0]}. There are: {', '.join(found)}.")
    chosen = {each: found[each] for each in wanted} or {each: one for each, one in found.items() if one.selected}
    return Opened(chosen, found)


def redact(config: ParsedConfig, error: BaseException) -> str:
    """An error in words, without what signs in and without the queries of addresses."""
    text = re.sub(r"(https?://[^\s?'\"]*)\?[^\s'\"]*", r"\1?…", f"{type(error).__name__}: {error}")
    for name in (names.AUTH, names.SECRETS):
        for secret in find_secrets(parse_object(name, _secret(config, name))):
            text = text.replace(secret, "[hidden]")
    return text


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
    given += list(resource.explicit_args.values())
    if callable(resource._pipe.gen):
        given += [each.default for each in inspect.signature(resource._pipe.gen).parameters.values()]
    return next((each for each in given if isinstance(each, Incremental)), None)


def primary_key(resource: DltResource) -> tuple[str, ...]:
    """The columns that tell rows apart, as far as the resource says so."""
    found: Any = (resource._hints or {}).get("primary_key")
    if isinstance(found, str):
        return (found,)
    return tuple(found) if isinstance(found, list | tuple) else ()


def _open_rest_api(config: ParsedConfig) -> dict[str, DltResource]:
    described = parse_rest_config(config.get(names.REST))  # type: ignore[arg-type]
    auth = parse_auth(_secret(config, names.AUTH))
    session = open_session()
    described["client"]["session"] = session
    if auth is not None:
        if auth["type"] == "oauth2_client_credentials":
            auth["session"] = session
        described["client"]["auth"] = auth
    return {each.name: each for each in rest_api_resources(described)}  # type: ignore[arg-type]


def _open_installed(name: str, config: ParsedConfig) -> dict[str, DltResource]:
    points = {point.name: point for point in entry_points(group=names.GROUP)}
    if name not in points:
        known = ", ".join([names.REST_API, *sorted(points)])
        raise ConnectorError(
            f"{names.SOURCE}: no installed package has an entry point {name!r} in the group {names.GROUP}. There are: "
            f"{known}."
        )
    arguments = parse_object(names.ARGUMENTS, config.get(names.ARGUMENTS))  # type: ignore[arg-type]
    made = points[name].load()(**arguments, **parse_object(names.SECRETS, _secret(config, names.SECRETS)))
    if isinstance(made, DltResource):
        return {made.name: made}
    if isinstance(made, DltSource):
        return dict(made.resources)
    raise ConnectorError(f"{names.SOURCE}: the entry point {name!r} gives neither a source nor a resource of dlt.")


def _secret(config: ParsedConfig, name: str) -> str | None:
    found: Any = config.get(name)
    return None if found is None else str(getattr(found, "value", found))
