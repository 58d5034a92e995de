"""Which settings are taken for secrets by their name alone."""

import pytest

from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.sdk.secret_names import hiding, secret_by_name


@pytest.mark.parametrize(
    "name",
    ["password", "db.password", "database.pass", "pass", "DB_PASS", "user.pwd", "api.key", "apiKey", "sasl.jaas.config",
     "private_key", "access-token", "clientSecret", "ssl.keystore.key", "passphrase"],
)  # fmt: skip
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert secret_by_name(name)


@pytest.mark.parametrize("name", ["topic", "bypass", "compass.heading", "passive.mode", "key.converter", "passes"])
def test_other_names_are_not(name: str) -> None:
    assert not secret_by_name(name)


def test_values_of_secrets_are_hidden_in_texts_the_longest_first() -> None:
    hide = hiding({"db.password": "abcd", "api.key": "abcd-efgh", "topic": "orders"})
    assert hide("abcd-efgh abcd orders") == f"{HIDDEN} {HIDDEN} orders"


def test_a_secret_of_fewer_than_four_characters_is_not_searched_for() -> None:
    """It would make texts unreadable: "a" is in most words."""
    assert hiding({"password": "abc"})("abcd") == "abcd"
