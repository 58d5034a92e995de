"""Names of topics: a task that produces to one that no broker accepts fails with the reason."""

import pytest

from ringfence.connectors.api.errors import ConnectorError
from ringfence.fencing.records.topic_name_check import check_name


@pytest.mark.parametrize("name", ["a", "a" * 249, "A.b_c-9", "...", "..a"])
def test_a_legal_name_is_accepted(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "a" * 250, ".", "..", "a b", "a/b", "ä", "a\n"])
def test_any_other_name_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(ConnectorError, match=r"1 to 249 characters.* then restart the task"):
        check_name(name)
