"""The complete definition for a source connector's configuration: common settings, converters, transforms.

The connector's own settings (`SourceConnector.config_def`) are added to it.
"""

from collections.abc import Mapping
from dataclasses import replace

from ringfence.connectors.api import ConfigDef, ConfigException
from ringfence.connectors.common_settings import common_settings
from ringfence.connectors.converters import HEADER, KEY, VALUE, find_converter, find_header_converter
from ringfence.connectors.java_settings import java_keys, snapshot_keys
from ringfence.connectors.topic_creation_settings import topic_creation_keys
from ringfence.connectors.transforms import transform_keys


def source_config_def(config: Mapping[str, str], *, java: bool = False) -> ConfigDef:
    """Return the settings that the framework knows in this configuration, including those that it must refuse.

    Other names are left to the connector. java: without transforms and converters, which are Java's own for a Java
    connector, and with the settings of processes and snapshots.
    """
    if java:
        keys = (key for key in common_settings().keys.values() if not of_a_part(key.name))
        more = (java_keys(), snapshot_keys(), topic_creation_keys(config))
        return ConfigDef([*keys, *(key for each in more for key in each.keys.values())])
    definition = common_settings()
    for setting in (KEY, VALUE, HEADER):
        name = config.get(setting)
        if isinstance(name, str):
            for key in _converter_keys(setting, name.strip()).keys.values():
                full = f"{setting}.{key.name}"
                definition.add(replace(key, name=full, display_name=full, group=f"Converter: {setting}"))
    for key in transform_keys(config).keys.values():
        definition.add(key)
    for key in topic_creation_keys(config).keys.values():
        definition.add(key)
    return definition


def of_a_part(setting: str) -> bool:
    """Return whether the setting belongs to transforms, predicates or converters."""
    return setting.partition(".")[0] in ("transforms", "predicates") or ".converter" in setting


def _converter_keys(setting: str, name: str) -> ConfigDef:
    try:
        cls = find_header_converter(setting, name) if setting == HEADER else find_converter(setting, name)
    except ConfigException:
        return ConfigDef()  # the setting's own validator reports it
    return cls.config_def()
