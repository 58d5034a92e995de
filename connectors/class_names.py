"""The dotted name of a class in configurations, stored records and responses."""

from typing import Final

_PACKAGE: Final = "ringfence."
_OURS: Final = ("ringfence.connectors.", "ringfence.fencing.")


def class_name(cls: type) -> str:
    """Return module and class; Ringfence's own classes without the prefix `ringfence.`, for compatibility."""
    module = cls.__module__.removeprefix(_PACKAGE) if f"{cls.__module__}.".startswith(_OURS) else cls.__module__
    return f"{module}.{cls.__qualname__}"


def short_names(class_name: str) -> set[str]:
    """Return the short forms of a class's full name: its last part, with and without the suffix `Connector`."""
    simple = class_name.rpartition(".")[2]
    return {simple, simple.removesuffix("Connector")}
