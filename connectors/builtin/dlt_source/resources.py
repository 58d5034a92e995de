"""The resources that a configuration names."""

from importlib.metadata import entry_points
from typing import NamedTuple

from dlt.common.configuration.container import Container
from dlt.common.configuration.specs.config_providers_context import ConfigProvidersContainer
from dlt.common.configuration.specs.pluggable_run_context import PluggableRunContext
from dlt.extract import DltResource, DltSource
from dlt.sources.rest_api import rest_api_resources

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.dlt_source import rest_client
from ringfence.connectors.builtin.dlt_source import settings as names
from ringfence.connectors.builtin.dlt_source.rest_config import (
    parse_auth,
    parse_object,
    parse_rest_config,
    redact,
    secret_text,
)
from ringfence.connectors.builtin.dlt_source.sessions import open_session

rest_client.install()


class SourceResources(NamedTuple):
    """wanted: the resources to read, by name, in the source's order. known: all of the source, including parents."""

    selection: dict[str, DltResource]
    all_resources: dict[str, DltResource]


def open_resources(config: ParsedConfig) -> SourceResources:
    """Open the resources. Makes no request to the API. Raises `ConnectorError`."""
    # dlt would complete a configuration from the worker's environment and files, with other users' secrets.
    Container()[PluggableRunContext].providers = ConfigProvidersContainer([])
    name = config.string(names.SOURCE)
    try:
        resources = _open_rest_api(config) if name == names.REST_API else _open_installed(name, config)
    except ConnectorError:
        raise
    except Exception as error:  # noqa: BLE001 - from dlt, or from the source
        setting = names.REST if name == names.REST_API else names.ARGUMENTS
        raise ConnectorError(f"{setting}: dlt refuses the configuration: {redact(config, error)}") from None
    names_to_read = config.strings(names.RESOURCES)
    if missing := [each for each in names_to_read if each not in resources]:
        raise ConnectorError(
            f"{names.RESOURCES}: there is no resource {missing[0]}. Existing resources: {', '.join(resources)}."
        )
    selection = {each: resources[each] for each in names_to_read} or {
        each: one for each, one in resources.items() if one.selected
    }
    return SourceResources(selection, resources)


def _open_rest_api(config: ParsedConfig) -> dict[str, DltResource]:
    described = parse_rest_config(config.get(names.REST))  # type: ignore[arg-type]
    auth = parse_auth(secret_text(config, names.AUTH))
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
