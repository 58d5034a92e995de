"""The signed fence (KIP-507, KIP-618) and an unreadable session key, on the real broker with a real leader."""

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.config_records import SessionKeyRecord
from tests.support.engine_cluster import C, Cluster, at_work, ended
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("quick_restarts")


def key_of(cluster: Cluster) -> SessionKeyRecord:
    key = eventually(lambda: cluster.leader.state().session_key, 20, "a session key")
    assert key is not None
    return key


def request(key: SessionKeyRecord, payload: bytes = b"", signature: str | None = None) -> dict[str, str]:
    mac = hmac.new(base64.b64decode(key.key), payload, hashlib.sha256)
    return {
        "payload": base64.b64encode(payload).decode(),
        "signature": base64.b64encode(mac.digest()).decode() if signature is None else signature,
        "algorithm": "HmacSHA256",
    }


def test_a_signed_fence_is_answered_when_the_round_is_over_and_an_unsigned_one_is_refused(
    cluster: Cluster,
    unique: Callable[[str], str],
) -> None:
    key = key_of(cluster)
    good = request(key, b"{}")
    assert cluster.command("fence", good)["status"] == 404
    config = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers")}
    assert cluster.command("create", {"config": config})["ok"] is True
    assert cluster.command("fence", good)["ok"] is True
    for wrong, status in (
        ({**good, "payload": base64.b64encode(b"{ }").decode()}, 403),
        ({**good, "signature": "AAAA"}, 403),
        ({**good, "signature": "?"}, 400),
        ({**good, "algorithm": "HmacMD5"}, 400),
    ):
        answer = cluster.command("fence", wrong)
        assert answer["status"] == status
        assert key.key not in str(answer)

    old = at_work(cluster)  # it is waited for, so the round is under way for a while
    cluster.command("configure", {"config": {**config, "throughput": "9"}})
    assert cluster.leader.state().connector(C).round_pending
    late = cluster.command("fence", good, limit=Deadline.after(0.3))
    assert (late["status"], "still being fenced" in str(late["message"])) == (500, True)
    cluster.reporter.status(ended(old))
    assert cluster.command("fence", good)["ok"] is True
    assert not cluster.leader.state().connector(C).round_pending
    assert key.key not in str(cluster.events())


def test_a_key_of_no_connector_that_cannot_be_read_stops_the_leader_with_topic_offset_and_key(
    cluster: Cluster,
) -> None:
    key_of(cluster)
    topic = cluster.config.config_topic
    writer = Producer(cluster.connection.librdkafka())
    places: list[int] = []
    writer.produce(
        topic, b'{"key":"a secret"}', b"logger-cluster-x", on_delivery=lambda _, sent: places.append(sent.offset() or 0)
    )
    assert writer.flush(20) == 0
    cluster.command("create", {"config": {"name": C, "connector.class": "VerifiableSource", "topic": "t"}})
    failure = eventually(lambda: cluster.leader.failure, 20, "the leader says what it cannot read") or ""
    assert (topic in failure, str(places[0]) in failure, "logger-cluster-x" in failure) == (True, True, True)
    assert "a secret" not in failure
    assert not cluster.leader.ready.is_set()

    writer.produce(topic, None, b"logger-cluster-x")  # mended by hand
    assert writer.flush(20) == 0
    assert cluster.leader.ready.wait(60)
    key_of(cluster)
