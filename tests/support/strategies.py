"""Hypothesis' strategies for dataclasses and named tuples, from their fields' types: new fields are covered, too."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, NewType, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
"""For what is in a key, and for ids: empty stands for none of them."""
NUMBER = st.integers(0, 2**40)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


def record_strategy(
    kind: type[Any], given: Mapping[str, st.SearchStrategy[Any]] = MappingProxyType({}), *, sequence: type = tuple
) -> st.SearchStrategy[Any]:
    """Instances of a dataclass or named tuple with a value in every field.

    given: the strategies of some fields; sequence: what a `Sequence` is.
    """
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else kind._fields
    return st.builds(
        kind, **{name: given[name] if name in given else strategy_of(hints[name], sequence) for name in names}
    )


def strategy_of(hint: Any, sequence: type = tuple) -> st.SearchStrategy[Any]:
    """Values of a type that JSON can hold."""
    simple = {str: TEXT, int: NUMBER, bool: st.booleans(), object: JSON, None: st.none(), NoneType: st.none()}
    if hint is Any:
        return JSON
    if isinstance(hint, NewType):
        return NAME if hint.__supertype__ is str else strategy_of(hint.__supertype__)
    if hint is float:
        return st.floats(0, 1e6)
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and is_typeddict(hint):
        return _typed_dict(hint, sequence)
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return record_strategy(hint, sequence=sequence)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    return _generic(hint, sequence)


def _generic(hint: Any, sequence: type) -> st.SearchStrategy[Any]:
    origin, parameters = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(*(strategy_of(each, sequence) for each in parameters))
    if origin is Literal:
        return st.sampled_from(parameters)
    if origin in (Mapping, dict):
        return st.dictionaries(*(strategy_of(each, sequence) for each in parameters), max_size=2)
    if origin is tuple and parameters[-1] is not ...:
        return st.tuples(*(strategy_of(each, sequence) for each in parameters))
    if origin in (Sequence, list, tuple):
        kind = {Sequence: sequence, list: list, tuple: tuple}[origin]
        return st.lists(strategy_of(parameters[0], sequence), max_size=2).map(kind)
    raise TypeError(f"no strategy for {hint!r}")


def _typed_dict(kind: type[Any], sequence: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    values = {}
    for name, hint in hints.items():
        plain = get_args(hint)[0] if get_origin(hint) is NotRequired else hint
        values[name] = strategy_of(plain, sequence)
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    return st.fixed_dictionaries(
        {name: each for name, each in values.items() if name in required},
        optional={name: each for name, each in values.items() if name not in required},
    )
