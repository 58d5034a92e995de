"""What `/api/v1` takes is checked by the serializers that document it."""

import ast
from pathlib import Path
from typing import Any

import pytest
from rest_framework.exceptions import ValidationError

from ringfence import api
from ringfence.api.base import read
from ringfence.api.v1.request_fields import (
    FlagField,
    IntegerField,
    JsonField,
    ListField,
    NumberField,
    OneOfField,
    QueryShape,
    RequestShape,
    StringField,
    first_error,
)


class PairShape(RequestShape):
    number = IntegerField(min_value=0, max_value=9)


class EveryShape(RequestShape):
    string = StringField(required=False, max_length=5)
    flag = FlagField(required=False)
    integer = IntegerField(required=False)
    number = NumberField(required=False)
    one = OneOfField(choices=["a", "1"], required=False)
    pairs = ListField(child=PairShape(), required=False)
    pair = PairShape(required=False)
    json = JsonField(required=False)
    from_ = StringField(required=False)


class AskedShape(QueryShape):
    flag = FlagField(required=False)
    integer = IntegerField(required=False, min_value=1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("3", "The request body must be a JSON object."),
        ("", "The request body must be a JSON object."),
        ('{"string": 3}', "string must be a string of 1 to 5 characters."),
        ('{"string": "  "}', "string must be a string of 1 to 5 characters."),
        ('{"string": null}', "string must be a string of 1 to 5 characters."),
        ('{"string": "  ab  "}', "string must be a string of 1 to 5 characters."),
        ('{"flag": "true"}', "flag must be true or false."),
        ('{"flag": 1}', "flag must be true or false."),
        ('{"integer": "3"}', "integer must be an integer."),
        ('{"integer": 1.5}', "integer must be an integer."),
        ('{"integer": true}', "integer must be an integer."),
        ('{"number": "3"}', "number must be a number."),
        ('{"one": 1}', "one must be one of a, 1."),
        ('{"pairs": {}}', "pairs must be a list."),
        ('{"pairs": [{"number": 1}, {"number": 10}]}', "pairs[1].number must be an integer from 0 to 9."),
        ('{"pairs": [{"number": 1, "x": 1}]}', "Unknown field x: use some of number."),
        ('{"pair": null}', "pair must be a JSON object."),
        ('{"pair": {}}', "pair.number must be an integer from 0 to 9."),
        (
            '{"from_": "x"}',
            "Unknown field from_: use some of string, flag, integer, number, one, pairs, pair, json, ",
        ),
    ],
)
def test_another_type_is_refused_by_what_the_field_must_be(body: str, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        EveryShape().run_validation(read(body.encode()))
    assert first_error(refused.value.detail).startswith(said)


def test_values_come_as_python_has_them() -> None:
    body = b'{"string": " a ", "integer": 3, "number": 2, "pairs": [{"number": 1}], "json": {"n": [1.5]}, "from": "x"}'
    found = EveryShape().run_validation(read(body))
    assert found == {
        "string": "a", "integer": 3, "number": 2.0, "pairs": [{"number": 1}], "json": {"n": [1.5]}, "from": "x",
    }  # fmt: skip


def test_a_query_says_numbers_and_flags_in_words() -> None:
    assert AskedShape().run_validation({"flag": "true", "integer": "7"}) == {"flag": True, "integer": 7}
    for wrong in ({"flag": "yes"}, {"integer": "0"}, {"integer": "٣"}, {"integer": "1.0"}):
        with pytest.raises(ValidationError):
            AskedShape().run_validation(wrong)


def test_no_view_reads_a_body_beside_its_serializer() -> None:
    """Whoever reads a body or a declared query does so by `takes` and `queries`."""
    for path in (Path(api.__file__).parent / "v1").glob("*.py"):
        if path.name == "base.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Attribute) and node.attr in ("json_body", "raw_body")), path
        for view in _classes(path):
            called = {node.attr for node in ast.walk(view) if isinstance(node, ast.Attribute)}
            declared = {node.id for node in ast.walk(view) if isinstance(node, ast.Name)}
            # A list makes its own of its filters.
            declared |= {
                n.attr for n in ast.walk(view) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
            }
            for method, declaration in (("parse_body", "takes"), ("parse_query", "queries")):
                assert method not in called or declaration in declared, f"{path.name}: {view.name} lacks {declaration}"


def _classes(path: Path) -> list[Any]:
    return [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
