"""Which settings are taken for secrets by their name alone."""

import pytest

from ringfence.connectors.secret_names import secret_by_name


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
