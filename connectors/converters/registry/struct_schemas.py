"""Which structs may stand where a schema asks for one."""

import functools

from ringfence.connectors.api import Schema


@functools.lru_cache(1024)
def is_same_struct(made: Schema, wanted: Schema) -> bool:
    """Whether a struct of the schema `made` is one of `wanted`: the same fields, name, version, doc and parameters.

    Whether it may be left out, and what stands in its place then, is said by the field that holds it.
    """
    return made == wanted or made.but(optional=wanted.optional, default=wanted.default) == wanted
