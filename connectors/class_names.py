"""The dotted name of a class in configurations, stored records and responses."""

from typing import Final

_PACKAGE: Final = "ringfence."
_OURS: Final = ("ringfence.connectors.", "ringfence.fencing.")
_FORMER_MODULES: Final = {
    "connectors.transforms.cast": "connectors.transforms.values",
    "connectors.transforms.flatten": "connectors.transforms.fields",
    "connectors.transforms.headers": "connectors.transforms.routing",
    "connectors.transforms.insert_field": "connectors.transforms.values",
    "connectors.transforms.mask_field": "connectors.transforms.values",
    "connectors.transforms.metadata": "connectors.transforms.values",
    "connectors.transforms.replace_field": "connectors.transforms.fields",
}
"""Where classes are that configurations may name by a module of before: it stays valid."""


def class_name(cls: type) -> str:
    """Return module and class; Ringfence's own classes without the prefix `ringfence.`, for compatibility."""
    module = cls.__module__.removeprefix(_PACKAGE) if f"{cls.__module__}.".startswith(_OURS) else cls.__module__
    return f"{module}.{cls.__qualname__}"


def short_names(class_name: str) -> set[str]:
    """Return the short forms of a class's full name: its last part, with and without the suffix `Connector`."""
    simple = class_name.rpartition(".")[2]
    return {simple, simple.removesuffix("Connector")}


def resolve_class_name(class_name: str) -> str:
    """Return the dotted name of today for a class that was in another module before; others unchanged."""
    module, dot, name = class_name.rpartition(".")
    return f"{_FORMER_MODULES.get(module, module)}{dot}{name}"
