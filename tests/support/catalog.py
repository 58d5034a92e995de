"""The built-in connectors that the catalog shows."""

from ringfence.connectors.plugins import PluginRegistry

BUILT_IN = [each.cls for each in PluginRegistry.discover().plugins if each.class_name.startswith("connectors.builtin.")]
