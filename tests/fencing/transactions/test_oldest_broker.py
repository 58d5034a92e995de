"""The oldest broker that preflight passes has every request of ours in a version that is written here."""

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from ringfence.fencing.fetching.fetched_batches import Fetch
from ringfence.fencing.kafka.permission_probes import OLDEST_BROKER
from ringfence.fencing.transactions import messages

REQUESTS = {each.__name__: each for each in vars(messages).values() if hasattr(each, "versions")} | {"Fetch": Fetch}


def missing(broker: tuple[int, ...]) -> set[str]:
    ranges = BROKER_API_VERSIONS[broker]
    return {name for name, each in REQUESTS.items() if ranges[each.api][1] < each.versions[0]}


def test_the_oldest_broker_has_all_requests() -> None:
    assert len(REQUESTS) > 10
    assert missing(OLDEST_BROKER) == set()


@pytest.mark.parametrize("older", [(2, 5), (2, 6), (2, 7)])
def test_an_older_broker_cannot_take_records_in_transactions(older: tuple[int, ...]) -> None:
    assert {"Produce", "AddPartitions", "EndTransaction"} <= missing(older)
