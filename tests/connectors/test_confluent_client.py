"""A canary for the private parts of confluent-kafka that `registry.settings` uses: its real client."""

import httpx
import pytest

from ringfence.connectors.converters.registry.settings import find_http_clients, load, transport_error

URL = "http://127.0.0.1:9"  # nobody listens there
TOKENS = {
    "bearer.auth.credentials.source": "OAUTHBEARER",
    "bearer.auth.issuer.endpoint.url": URL,
    "bearer.auth.client.id": "canary",
    "bearer.auth.client.secret": "canary",
    "bearer.auth.scope": "canary",
    "bearer.auth.logical.cluster": "canary",
    "bearer.auth.identity.pool.id": "canary",
}


@pytest.mark.parametrize("settings,count", [({}, 1), (TOKENS, 2)])
def test_confluent_kafka_still_has_what_is_used_of_its_private_parts(settings: dict[str, str], count: int) -> None:
    client = load("confluent_kafka.schema_registry").SchemaRegistryClient({"url": URL, "max.retries": 0} | settings)
    found = find_http_clients(client)
    assert len(found) == count
    assert all(isinstance(each, httpx.Client) for each in found)


def test_the_error_of_a_registry_that_is_away_is_known() -> None:
    client = load("confluent_kafka.schema_registry").SchemaRegistryClient({"url": URL, "max.retries": 0})
    with pytest.raises(transport_error()):
        client.get_subjects()
