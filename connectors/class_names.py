"""The dotted name of a class as configurations, stored records and answers carry it."""

from typing import Final

_PACKAGE: Final = "ringfence."
_OURS: Final = ("ringfence.connectors.", "ringfence.fencing.")


def class_name(cls: type) -> str:
    """Module and class; what came with Ringfence goes without `ringfence.`, as its names were before."""
    module = cls.__module__.removeprefix(_PACKAGE) if f"{cls.__module__}.".startswith(_OURS) else cls.__module__
    return f"{module}.{cls.__qualname__}"


def short_names(class_name: str) -> set[str]:
    """What may stand for a class's full name: it alone, also without `Connector` at its end."""
    simple = class_name.rpartition(".")[2]
    return {simple, simple.removesuffix("Connector")}
