"""The resources that a configuration names, and what the incremental loading of each guarantees: each row once, or
less."""

import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from dlt.common.configuration.container import Container
from dlt.common.configuration.specs.config_providers_context import ConfigProvidersContainer
from dlt.common.configuration.specs.pluggable_run_context import PluggableRunContext
from dlt.extract import DltResource, DltSource, Incremental
from dlt.sources.helpers.requests import Client
from dlt.sources.rest_api import rest_api_resources
from requests import Session

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.dlt_source import rest_client
from ringfence.connectors.builtin.dlt_source import settings as names
from ringfence.connectors.builtin.dlt_source.rest_config import (
    as_json,
    build_auth,
    parse_auth,
    parse_object,
    parse_rest_config,
    redact,
    secret_text,
)
from ringfence.connectors.builtin.dlt_source.settings import CHANGES
from ringfence.connectors.sdk.guarded_requests import restrict_session

_TIMEOUT = 60.0


def open_session(attempts: rest_client.Attempts | None = None) -> Session:
    """Return a session of dlt, with its retries, but without proxies and passwords from the environment.

    attempts: is told how each attempt to send a request ends.
    """
    session: Session = Client(request_timeout=_TIMEOUT, raise_for_status=False).session
    restrict_session(session)
    if attempts is not None:
        for scheme in ("http://", "https://"):
            session.mount(scheme, rest_client.ObservedAdapter(session.get_adapter(scheme), attempts))
    return session


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


rest_client.install()


class SourceResources(NamedTuple):
    """selection: the resources to read, by name, in the source's order. all_resources: including their parents.

    attempts: those of the requests to a REST API; other sources send theirs themselves.
    """

    selection: dict[str, DltResource]
    all_resources: dict[str, DltResource]
    attempts: rest_client.Attempts


def open_resources(config: ParsedConfig) -> SourceResources:
    """Open the resources. Makes no request to the API. Raises `ConnectorError`."""
    # dlt would complete a configuration from the worker's environment and files, with other users' secrets.
    Container()[PluggableRunContext].providers = ConfigProvidersContainer([])
    name, attempts = config.string(names.SOURCE), rest_client.Attempts()
    try:
        resources = _open_rest_api(config, attempts) if name == names.REST_API else _open_installed(name, config)
    except ConnectorError:
        raise
    except Exception as error:  # noqa: BLE001 - from dlt, or from the source
        setting = names.ARGUMENTS if name != names.REST_API else names.REST if config.get(names.REST) else names.URL
        raise ConnectorError(f"{setting}: dlt refuses the configuration: {redact(config, error)}") from None
    names_to_read = config.strings(names.RESOURCES)
    if missing := [each for each in names_to_read if each not in resources]:
        raise ConnectorError(
            f"{names.RESOURCES}: there is no resource {missing[0]}. Existing resources: {', '.join(resources)}."
        )
    selection = {each: resources[each] for each in names_to_read} or {
        each: one for each, one in resources.items() if one.selected
    }
    return SourceResources(selection, resources, attempts)


def _open_rest_api(config: ParsedConfig, attempts: rest_client.Attempts) -> dict[str, DltResource]:
    described, auth = _describe_api(config)
    session = open_session(attempts)
    described["client"]["session"] = session
    if auth is not None:
        if auth["type"] == "oauth2_client_credentials":
            auth["session"] = session
        described["client"]["auth"] = auth
    return {each.name: each for each in rest_api_resources(described)}  # type: ignore[arg-type]


def _describe_api(config: ParsedConfig) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the API and its login as dlt takes them, from `rest.url` and what belongs to it, or from `rest.config`."""
    if config.get(names.URL) is None:
        return parse_rest_config(config.get(names.REST)), parse_auth(secret_text(config, names.AUTH))  # type: ignore[arg-type]
    if config.get(names.REST) is not None:
        raise ConnectorError(f"{names.URL}: set either this or {names.REST}, not both.")
    text, auth = as_json(config), build_auth(config)
    try:
        return parse_rest_config(text), auth or parse_auth(secret_text(config, names.AUTH))
    except ConnectorError as error:
        raise ConnectorError(str(error).replace(names.REST, names.URL)) from None


def _open_installed(name: str, config: ParsedConfig) -> dict[str, DltResource]:
    points = {point.name: point for point in entry_points(group=names.GROUP)}
    if name not in points:
        available = ", ".join([names.REST_API, *sorted(points)])
        raise ConnectorError(
            f"{names.SOURCE}: no installed package has an entry point {name!r} in the group {names.GROUP}. Existing "
            f"ones: {available}."
        )
    arguments = parse_object(names.ARGUMENTS, config.get(names.ARGUMENTS))  # type: ignore[arg-type]
    source = points[name].load()(**arguments, **parse_object(names.SECRETS, secret_text(config, names.SECRETS)))
    if isinstance(source, DltResource):
        return {source.name: source}
    if isinstance(source, DltSource):
        return dict(source.resources)
    raise ConnectorError(f"{names.SOURCE}: the entry point {name!r} returns neither a dlt source nor a dlt resource.")


def find_problem(config: ParsedConfig, resources: SourceResources, *, exactly_once: bool) -> tuple[str, str] | None:
    """Return a setting and its error, or None. exactly_once: whether exactly once is required."""
    if not resources.selection:
        return names.RESOURCES, "The source selects no resource: name those to read."
    by_page, changes_only = config.string(names.CHECKPOINT) == names.PAGE, config.boolean(names.CHANGES)
    for name, one in resources.selection.items():
        if by_page and (why := why_no_pages(one)):
            return (
                names.CHECKPOINT,
                f"Pages of {name} cannot be committed one by one: {why}. Set {names.CHECKPOINT}={names.PASS}, or "
                "row_order=asc if the API sorts by the cursor.",
            )
        if changes_only and (why := why_no_changes(one, resources.all_resources)):
            return names.CHANGES, f"Rows of {name} cannot be compared: {why}. Add one, or leave the resource out."
        if exactly_once and (why := find_doubt(one, resources.all_resources, changes_only=changes_only)):
            return (
                names.RESOURCES,
                f"{name} cannot be read exactly once: {why}. Change its incremental, leave the resource out of "
                "dlt.resources, or set exactly.once.support=requested.",
            )
    return None


def explain(config: ParsedConfig, resources: SourceResources) -> str:
    """Which resource makes the connector at least once, and why; "" if none does."""
    changes_only = config.boolean(names.CHANGES)
    for name, one in resources.selection.items():
        if why := find_doubt(one, resources.all_resources, changes_only=changes_only):
            return f"Resource {name}: {why}."
    return ""
