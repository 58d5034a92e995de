"""`/api/v1/preflight`: the checks of a stored connector, and of a configuration that is not stored."""

from django.test import Client

from ringfence.dispatch import Refusal
from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.topics.status import WorkerRecord
from tests.support.leader import FakeLeader
from tests.support.topics import connector

JSON = "application/json"
CONFIG = {"name": "c", "connector.class": "VerifiableSource", "topic": "t", "pin": "hunter2"}


def test_a_configuration_is_checked_and_nothing_is_created(client: Client, leader: FakeLeader) -> None:
    answer = client.put("/api/v1/preflight", CONFIG, content_type=JSON)
    assert answer.status_code == 200
    body = answer.json()
    assert body["connector"] == "c"
    assert [check["result"] for check in body["checks"]] == ["ok", "failed", "failed"]
    assert [kind for kind, _, _ in leader.asked] == ["preflight"]
    assert "hunter2" not in answer.content.decode()


def test_a_stored_connector_is_checked_with_its_own_secrets(client: Client, leader: FakeLeader) -> None:
    client.put("/connectors/c/config", CONFIG, content_type=JSON)
    answer = client.get("/api/v1/preflight?connector=c")
    assert answer.status_code == 200
    assert leader.asked[-1] == ("preflight", "c", CONFIG)
    masked = {**CONFIG, "pin": "[hidden]"}
    client.put("/api/v1/preflight", masked, content_type=JSON)
    assert leader.asked[-1] == ("preflight", "c", CONFIG)


def test_what_cannot_be_checked_is_an_error_in_the_usual_shape(client: Client, leader: FakeLeader) -> None:
    assert client.get("/api/v1/preflight").status_code == 400
    assert client.get("/api/v1/preflight?connector=x").status_code == 404
    assert client.put("/api/v1/preflight", {"name": "c"}, content_type=JSON).status_code == 400
    leader.refusal = Refusal(404, "no such plugin")
    answer = client.put("/api/v1/preflight", CONFIG, content_type=JSON)
    assert (answer.status_code, answer.json()["detail"]) == (404, "no such plugin")


def test_credentials_in_overrides_are_never_shown(client: Client, leader: FakeLeader) -> None:
    key = "-----BEGIN PRIVATE KEY-----"
    secret = {"producer.override.ssl.keystore.key": key, "producer.override.sasl.jaas.config": "x hunter2"}
    client.put("/connectors/c/config", {**CONFIG, **secret}, content_type=JSON)
    shown = client.get("/connectors/c/config").json()
    assert {shown[name] for name in secret} == {"[hidden]"}


def test_too_few_slots_are_told_before_the_start(client: Client, leader: FakeLeader) -> None:
    def say(config: dict[str, str]) -> tuple[str, str, str]:
        check = client.put("/api/v1/preflight", config, content_type=JSON).json()["checks"][-1]
        return check["result"], check["message"], check["remedy"]

    leader.config.config(connector("first"))
    leader.start("first", tasks=2)
    leader.status.status(WorkerRecord(WorkerId("w1"), Incarnation("i"), "enabled", 3, "1", 1))
    leader.project()
    assert say(CONFIG)[:2] == ("ok", "2 of 3 in use.")
    result, message, remedy = say({**CONFIG, "tasks.max": "2"})
    assert (result, message.split(":")[0]) == ("failed", "Only 1 free for up to 2 more tasks")
    assert "add a worker" in remedy
    assert say({**CONFIG, "name": "first", "tasks.max": "3"})[0] == "ok", "it has two already"
    leader.start("first", tasks=3)
    assert say(CONFIG)[1].startswith("No free slot: 3 of 3 in use.")


def test_validation_warns_of_too_few_slots_in_a_header(client: Client, leader: FakeLeader) -> None:
    """Its body is Kafka Connect's, field for field: clients that refuse unknown ones read it."""

    def validated() -> tuple[str | None, dict[str, object]]:
        answer = client.put("/connector-plugins/VerifiableSource/config/validate", CONFIG, content_type=JSON)
        return answer.get("Warning"), answer.json()

    leader.config.config(connector("first"))
    leader.start("first", tasks=2)
    leader.status.status(WorkerRecord(WorkerId("w1"), Incarnation("i"), "enabled", 3, "1", 1))
    leader.project()
    warning, body = validated()
    assert warning is None
    leader.start("first", tasks=3)
    warning, same = validated()
    assert warning is not None
    assert warning.startswith('299 ringfence "No free slot: 3 of 3 in use.')
    assert "add a worker" in warning
    assert same == body
    assert same["error_count"] == 0
    assert same.keys() == {"name", "error_count", "groups", "configs"}
