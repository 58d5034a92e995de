"""Compares the schemas of structs."""

import functools

from ringfence.connectors.api import Schema


@functools.lru_cache(1024)
def is_same_struct(made: Schema, wanted: Schema) -> bool:
    """Return whether a struct of the schema `made` is valid for `wanted`: with the same fields, name, version, doc and
    parameters.

    Optionality and default are ignored: they depend on the field that contains the struct.
    """
    return made == wanted or made.but(optional=wanted.optional, default=wanted.default) == wanted
