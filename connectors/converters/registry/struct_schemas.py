"""Compares the schemas of structs."""

import functools

from ringfence.connectors.api import Schema


@functools.lru_cache(1024)
def is_same_struct(actual: Schema, target: Schema) -> bool:
    """Return whether a struct of the schema `actual` is valid for `target`: with the same fields, name, version, doc
    and parameters.

    Optionality and default are ignored: they depend on the field that contains the struct.
    """
    return actual == target or actual.but(optional=target.optional, default=target.default) == target
