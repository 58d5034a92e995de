"""PostgresSource beside the real Debezium: generated tables and changes, and every difference is one that is meant.

All types in tables of all replica identities, read in a snapshot, in an incremental one and from the stream; changes of
definitions between changes of rows. `DIFFERENTIAL_SEED` repeats a run.
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.postgres import debezium_avro
from tests.postgres.beside import Both, Variant, run
from tests.postgres.generated import SCHEMA, generate
from tests.postgres.intended_differences import TOPICS, Difference, find_differences, reason_of
from tests.postgres.local import loopback
from tests.support.apicurio import Apicurio
from tests.support.postgres import LOGICAL, new_postgres

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

_JSON = {f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")}
_BY_THE_TASK = Variant("json", _JSON, serialized=True)
_OTHER_MODES = Variant(
    "modes",
    {
        **_JSON,
        "time.precision.mode": "connect",
        "decimal.handling.mode": "string",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "map",
        "binary.handling.mode": "hex",
        "include.unknown.datatypes": "true",
    },
)
_SHOWN = 40


def _avro(registry: Apicurio) -> Variant:
    def converters(settings: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in settings.items() if ".converter" in name}

    return Variant(
        "avro",
        {"decimal.handling.mode": "double", "time.precision.mode": "adaptive_time_microseconds"},
        theirs=converters(debezium_avro.converters_of_debezium(registry)),
        ours=converters(debezium_avro.settings_of(registry)),
        read=debezium_avro.Reader(registry).load,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Both]]:
    """The records of both by variant."""
    seed = int(os.environ.get("DIFFERENTIAL_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"DIFFERENTIAL_SEED={seed}")
    root = tmp_path_factory.mktemp("beside")
    with ExitStack() as stack:
        registry = Apicurio(root / "registry")
        stack.callback(registry.kill)
        registry.start()
        server = stack.enter_context(new_postgres(LOGICAL))
        stack.enter_context(loopback())
        variants = [_BY_THE_TASK, _OTHER_MODES, _avro(registry)]
        yield run(root, server, generate(seed), variants, [debezium_avro.CONVERTER])


@pytest.mark.parametrize("variant", ["json", "modes", "avro"])
def test_records_differ_only_where_they_are_meant_to(results: dict[str, Both], variant: str) -> None:
    theirs, ours = results[variant]
    expected = {topic for topic in ours if f".{SCHEMA}." in topic}
    more = {topic.rpartition(".")[2] for topic in theirs if f".{SCHEMA}." in topic and topic not in expected}
    assert more == TOPICS.keys()
    wrong: dict[tuple[str, ...], Difference] = {}
    for topic in sorted(expected):
        for one in find_differences(theirs[topic], ours[topic], topic.rpartition(".")[2]):
            if reason_of(one) is None:
                wrong.setdefault((one.table[:3], one.phase, one.what, one.column), one)
    shown = "\n".join(
        f"{one.table} {one.phase} {one.what} {one.column} ({one.type}): "
        f"Debezium {one.theirs!r:.200}, ours {one.ours!r:.200}"
        for one in list(wrong.values())[:_SHOWN]
    )
    assert not wrong, f"{len(wrong)} differences\n{shown}"
