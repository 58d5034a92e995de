"""One server for all tests that leave it running, and connectors on it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres.local import Database, loopback
from tests.postgres.stand import Stand
from tests.support.broker import Broker
from tests.support.postgres import LOGICAL, Postgres, new_postgres


@pytest.fixture(scope="package")
def server() -> Iterator[Postgres]:
    with new_postgres(LOGICAL) as made:
        yield made


@pytest.fixture
def stand(
    server: Postgres, broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[..., Stand]]:
    """`stand(**settings)` makes a connector that is not started."""
    made: list[Stand] = []

    def make(**settings: str) -> Stand:
        made.append(Stand(server, broker.bootstrap, unique("pg"), tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def database(server: Postgres, unique: Callable[[str], str]) -> Iterator[Database]:
    with loopback():
        made = Database(server, unique("rules"))
        yield made
        made.close()
