"""What is read from the fields of a search for records: a form sends all of them, a query only those that count."""

import pytest

from ringfence.api.topics import MOST, USUAL, RecordSearch, RecordSearchShape
from ringfence.api.v1.request_fields import check
from ringfence.http.errors import ConnectError

EMPTY = dict.fromkeys(("offset", "time", "partition", "key", "contains", "where", "limit", "cursor", "registry"), "")


def test_an_empty_form_asks_for_the_latest() -> None:
    assert RecordSearch.parse(EMPTY) == RecordSearch.parse({}) == RecordSearch()
    assert RecordSearch().limit == USUAL < MOST


@pytest.mark.parametrize(
    ("given", "place", "value"),
    [
        ({"from": "offset", "offset": " 7 ", "time": "x"}, "offset", 7),
        ({"offset": "7", "time": "x"}, "offset", 7),
        ({"offset": " ", "time": " 9 "}, "time", 9),
        ({"from": "time", "offset": "x", "time": "9"}, "time", 9),
        ({"from": "earliest", "offset": "x", "time": "x"}, "earliest", 0),
    ],
)
def test_only_the_field_of_the_place_counts(given: dict[str, str], place: str, value: int) -> None:
    found = RecordSearch.parse(given)
    assert (found.place, found.value) == (place, value)


def test_spaces_count_in_what_is_looked_for_and_not_around_numbers() -> None:
    found = RecordSearch.parse({"contains": " ", "key": " k ", "where": " x", "partition": " 3 ", "registry": " "})
    assert (found.contains, found.key, found.where, found.partition) == (" ", " k ", " x", 3)
    assert found.registry == ""


@pytest.mark.parametrize(
    "given",
    [
        {"from": ""},
        {"from": "now"},
        {"from": "offset", "offset": " "},
        {"from": "time", "time": "soon"},
        {"isolation": ""},
        {"limit": " 5 "},
        {"limit": "201"},
        {"partition": "x"},
        {"cursor": " "},
        {"cursor": "{}"},
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConnectError) as refused:
        RecordSearch.parse(given)
    assert next(reversed(given)) in str(refused.value.message)


@pytest.mark.parametrize(
    "given", [{"time": ""}, {"partition": ""}, {"limit": ""}, {"cursor": ""}, {"from": "latest", "offset": "x"}]
)
def test_a_query_is_held_to_its_description(given: dict[str, str]) -> None:
    with pytest.raises(ConnectError) as refused:
        check(RecordSearchShape, given)
    assert next(reversed(given)) in str(refused.value.message)
