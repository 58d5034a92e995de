"""Codes and bodies are Kafka Connect's."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from ringfence.dispatch import Refusal
from ringfence.engine.leader.commands.command import Plan, WriteResult
from ringfence.fencing.ids import ConnectorName, Incarnation, WorkerId
from ringfence.fencing.topics.active_topics import TopicStatus
from ringfence.fencing.topics.status import LeaderRecord, State
from ringfence.projection import cluster_topics
from tests.support.leader import FakeContext, FakeLeader
from tests.support.topics import connector_status

CONFIG = {"connector.class": "VerifiableSource", "topic": "t"}
JSON = "application/json"


def create(client: Client, name: str = "c", config: dict[str, str] | None = None, **more: Any) -> Any:
    return client.post("/connectors", {"name": name, "config": config or CONFIG, **more}, content_type=JSON)


def body(response: Any) -> Any:
    return json.loads(response.content)


def test_the_root_tells_the_version_to_tools_and_leads_browsers_to_the_pages(client: Client) -> None:
    told = body(client.get("/"))
    assert set(told) == {"version", "commit", "kafka_cluster_id"}
    assert [int(part) for part in told["version"].split(".")] >= [4, 0]
    response = client.get("/", headers={"accept": "text/html,*/*"})
    assert (response.status_code, response["location"]) == (302, "/ui/")
    assert client.post("/").status_code == 405


def test_create_answers_201_with_location_and_info(client: Client) -> None:
    response = create(client, " c ")
    assert response.status_code == 201
    assert response["location"] == "http://localhost/connectors/c"
    assert body(response) == {"name": "c", "config": {**CONFIG, "name": "c"}, "tasks": [], "type": "source"}
    assert response["content-type"].startswith("application/json")


def test_create_twice_is_a_conflict(client: Client) -> None:
    create(client)
    response = create(client)
    assert response.status_code == 409
    assert body(response) == {"error_code": 409, "message": "Connector c already exists"}


def test_an_invalid_config_comes_before_the_conflict(client: Client) -> None:
    create(client)
    invalid = {"name": "c", "config": {"connector.class": "VerifiableSource"}}
    response = client.post("/connectors", invalid, content_type=JSON)
    assert response.status_code == 400
    assert body(response)["message"] == (
        "Connector configuration is invalid and contains the following 1 error(s):\n"
        'Missing required configuration "topic" which has no default value.\n'
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff",
        b'"text"',
        b'{"name": "c"}',
        b'{"name": "c", "config": null}',
        b'{"name": "c", "config": []}',
        b'{"name": [], "config": {}}',
        b'{"name": "", "config": {"connector.class": "VerifiableSource", "topic": "t"}}',
        b'{"name": "a\\u0007b", "config": {"connector.class": "VerifiableSource", "topic": "t"}}',
        b'{"name": "c", "config": {}, "extra": 1}',
        b'{"name": "c", "config": {"connector.class": "VerifiableSource", "topic": null}}',
        b'{"name": "c", "config": {"connector.class": "VerifiableSource", "topic": {"a": 1}}}',
        b'{"name": "c", "config": {"connector.class": "VerifiableSource", "topic": ["a"]}}',
        b'{"name": "c", "config": {"connector.class": "VerifiableSource", "topic": NaN}}',
        b'{"name": "c", "config": {"connector.class": "VerifiableSource", "topic": "\\ud800"}}',
        b'{"name": "c", "config": {"connector.class": "VerifiableSource", "name": "other", "topic": "t"}}',
        b'{"name": "c", "config": {"connector.class": "Unknown"}}',
        b'{"name": "c", "config": {"topic": "t"}}',
        b'{"name": "c", "initial_state": "flying", "config": {"connector.class": "VerifiableSource", "topic": "t"}}',
        b"[" * 100_000,
        b'{"name": "c", "config": {"connector.class": "VerifiableSource", "topic": "' + b"x" * 1_100_000 + b'"}}',
    ],
)
def test_bad_bodies_are_400_with_a_message(client: Client, leader: FakeLeader, sent: bytes) -> None:
    response = client.post("/connectors", sent, content_type=JSON)
    assert response.status_code == 400
    assert body(response)["error_code"] == 400
    assert body(response)["message"]
    assert leader.config.records == []


def test_a_missing_class_is_named(client: Client) -> None:
    response = client.post("/connectors", {"name": "c", "config": {"password": "hunter22"}}, content_type=JSON)
    message = body(response)["message"]
    assert message == "Connector config {password=[hidden], name=c} contains no connector type"


def test_scalars_become_texts_as_they_were_written(client: Client) -> None:
    sent = b'{"connector.class":"VerifiableSource","topic":"t","a":1.50,"b":1e3,"c":-0,"d":true,"e":12345678901234567}'
    response = client.put("/connectors/c/config", sent, content_type=JSON)
    assert response.status_code == 201
    config = body(response)["config"]
    assert [config[key] for key in "abcde"] == ["1.50", "1e3", "-0", "true", "12345678901234567"]


def test_initial_state_in_any_case(client: Client, leader: FakeLeader) -> None:
    assert create(client, initial_state="stopped").status_code == 201
    assert leader.asked[-1][2]["initial_state"] == "STOPPED"


def test_list_and_expand(client: Client, leader: FakeLeader) -> None:
    create(client, "b")
    create(client, "a")
    leader.start("a", tasks=2)
    leader.start("b")
    assert body(client.get("/connectors")) == ["a", "b"]
    both = body(client.get("/connectors?expand=status&expand=info"))
    assert both["a"]["info"]["tasks"] == [{"connector": "a", "task": 0}, {"connector": "a", "task": 1}]
    assert [task["state"] for task in both["a"]["status"]["tasks"]] == ["RUNNING", "RUNNING"]
    assert body(client.get("/connectors?expand=else")) == {"a": {}, "b": {}}
    assert body(client.get("/connectors?expand=status,info")) == {"a": {}, "b": {}}


def test_trailing_slashes_answer_without_a_redirect(client: Client) -> None:
    assert client.post("/connectors/", {"name": "c", "config": CONFIG}, content_type=JSON).status_code == 201
    for path in ("/connectors/", "/connectors/c/", "/connectors/c/config/", "/connector-plugins/"):
        assert client.get(path).status_code == 200


def test_put_config_creates_then_changes(client: Client) -> None:
    first = client.put("/connectors/c/config", CONFIG, content_type=JSON)
    assert (first.status_code, first["location"]) == (201, "http://localhost/connectors/c")
    second = client.put("/connectors/c/config", {**CONFIG, "topic": "u"}, content_type=JSON)
    assert second.status_code == 200
    assert body(client.get("/connectors/c/config"))["topic"] == "u"
    other = client.put("/connectors/c/config", {**CONFIG, "name": "d"}, content_type=JSON)
    assert other.status_code == 400
    assert "doesn't match connector name in the URL" in body(other)["message"]


def test_patch_config_merges(client: Client, leader: FakeLeader) -> None:
    create(client)
    response = client.patch("/connectors/c/config", {"topic": "u", "more": 7}, content_type=JSON)
    assert response.status_code == 200
    assert body(response)["config"] == {**CONFIG, "name": "c", "topic": "u", "more": "7"}
    assert "more" not in body(client.patch("/connectors/c/config", {"more": None}, content_type=JSON))["config"]
    assert leader.asked[-1][2]["expected"] == 1
    assert client.patch("/connectors/c/config", {"name": "d"}, content_type=JSON).status_code == 400
    assert client.patch("/connectors/x/config", {}, content_type=JSON).status_code == 404


def test_a_patch_beside_another_change_is_done_anew(client: Client, leader: FakeLeader) -> None:
    create(client)
    leader.refusal = Refusal(409, "stale", retry=True)
    response = client.patch("/connectors/c/config", {"a": "1"}, content_type=JSON)
    assert (response.status_code, response["retry-after"]) == (409, "1")
    assert [kind for kind, _, _ in leader.asked].count("configure") == 3


def test_status_and_its_parts(client: Client, leader: FakeLeader) -> None:
    create(client)
    first = {"state": "UNASSIGNED", "worker_id": "", "version": None}
    assert body(client.get("/connectors/c/status")) == {"name": "c", "connector": first, "tasks": [], "type": "source"}
    assert body(client.get("/connectors?expand=status"))["c"]["status"]["connector"] == first
    leader.start("c", tasks=11)
    told = body(client.get("/connectors/c/status"))
    assert told["name"] == "c"
    assert told["type"] == "source"
    assert told["connector"] == {"state": "RUNNING", "worker_id": "w1", "version": None}
    assert [task["id"] for task in told["tasks"]] == list(range(11))
    assert body(client.get("/connectors/c/tasks/3/status"))["id"] == 3


def test_a_new_connector_has_a_status_before_any_worker_has_reported(client: Client) -> None:
    create(client)
    response = client.get("/connectors/c/status")
    assert response.status_code == 200
    assert body(response)["connector"]["state"] == "UNASSIGNED"


def test_a_failed_task_always_has_a_trace(client: Client, leader: FakeLeader) -> None:
    create(client)
    leader.start("c", state=State.FAILED)
    assert body(client.get("/connectors/c/tasks/0/status"))["trace"]


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("get", "/connectors/x", "Connector x not found"),
        ("get", "/connectors/x/config", "Connector x not found"),
        ("get", "/connectors/x/tasks", "Connector x not found"),
        ("get", "/connectors/x/offsets", "Connector x not found"),
        ("get", "/connectors/x/status", "No status found for connector x"),
        ("get", "/connectors/x/tasks/0/status", "No status found for task x-0"),
        ("put", "/connectors/x/pause", "Unknown connector x"),
        ("get", "/nothing/here", "HTTP 404 Not Found: /nothing/here"),
        ("get", "/connectors/x/tasks/-1/status", "HTTP 404 Not Found: /connectors/x/tasks/-1/status"),
    ],
)
def test_404_texts(client: Client, method: str, path: str, message: str) -> None:
    response = getattr(client, method)(path)
    assert response.status_code == 404
    assert body(response) == {"error_code": 404, "message": message}


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [("put", "pause", 202), ("put", "resume", 202), ("put", "stop", 204), ("post", "restart", 204)],
)
@pytest.mark.parametrize("content_type", [None, JSON, "application/json; charset=utf-8"])
def test_actions_with_an_empty_body(
    client: Client, leader: FakeLeader, method: str, path: str, code: int, content_type: str | None
) -> None:
    create(client)
    response = client.generic(method.upper(), f"/connectors/c/{path}", b"", content_type=content_type or "")
    assert response.status_code == code
    assert response.content == b""
    assert leader.asked[-1][0] == path


def test_restart_with_flags_shows_what_is_restarting(client: Client, leader: FakeLeader) -> None:
    create(client)
    leader.start("c", tasks=2)
    leader.report("c", 1, State.FAILED)
    response = client.post("/connectors/c/restart?includeTasks=True", content_type=JSON)
    assert response.status_code == 202
    told = body(response)
    assert told["connector"]["state"] == "RESTARTING"
    assert [task["state"] for task in told["tasks"]] == ["RESTARTING", "RESTARTING"]
    assert leader.asked[-1] == ("restart", "c", {"include_tasks": True, "only_failed": False})
    told = body(client.post("/connectors/c/restart?includeTasks=true&onlyFailed=true", content_type=JSON))
    assert told["connector"]["state"] == "RUNNING"
    assert [task["state"] for task in told["tasks"]] == ["RUNNING", "RESTARTING"]
    for odd in ("yes", "1", ""):
        assert client.post(f"/connectors/c/restart?includeTasks={odd}", content_type=JSON).status_code == 204
    assert (
        client.post("/connectors/c/restart?includeTasks=false&includeTasks=true", content_type=JSON).status_code == 204
    )


def test_delete_and_task_restart(client: Client, leader: FakeLeader) -> None:
    create(client)
    leader.start("c")
    assert client.post("/connectors/c/tasks/0/restart", content_type=JSON).status_code == 204
    assert leader.asked[-1] == ("restart_task", "c", {"task": 0})
    assert client.delete("/connectors/c").status_code == 204
    assert client.get("/connectors/c").status_code == 404


def test_tasks_and_topics(client: Client, leader: FakeLeader) -> None:
    create(client)
    leader.start("c")
    assert body(client.get("/connectors/c/tasks")) == [
        {"id": {"connector": "c", "task": 0}, "config": {"task.id": "0"}}
    ]
    assert body(client.get("/connectors/c/topics")) == {"c": {"topics": []}}
    leader.status.status(TopicStatus(ConnectorName("c"), "t", 0, 1), TopicStatus(ConnectorName("c"), "s", 0, 1))
    leader.project()
    assert body(client.get("/connectors/c/topics")) == {"c": {"topics": ["s", "t"]}}
    assert body(client.get("/connectors/x/topics")) == {"x": {"topics": []}}
    for name in ("x", "c"):
        assert client.put(f"/connectors/{name}/topics/reset").status_code == 202
    assert body(client.get("/connectors/c/topics")) == {"c": {"topics": []}}


def test_a_task_that_reports_a_topic_at_once_after_a_reset_is_not_forgotten(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client)
    write = FakeContext.write

    def write_and_report(context: FakeContext, plan: Plan) -> WriteResult:
        result = write(context, plan)
        leader.status.status(TopicStatus(ConnectorName("c"), "t", 0, 1))
        return result

    monkeypatch.setattr(FakeContext, "write", write_and_report)
    assert client.put("/connectors/c/topics/reset").status_code == 202
    assert body(client.get("/connectors/c/topics")) == {"c": {"topics": ["t"]}}


def test_topics_are_403_without_tracking(client: Client, leader: FakeLeader) -> None:
    leader.status.status(LeaderRecord(WorkerId("w1"), Incarnation("i"), 1, 1, topic_tracking=False))
    leader.project()
    response = client.get("/connectors/c/topics")
    assert response.status_code == 403
    assert body(response) == {"error_code": 403, "message": "Topic tracking is disabled."}


def test_statuses_carry_the_versions_of_the_plugins(client: Client, leader: FakeLeader) -> None:
    create(client)
    leader.start("c")
    leader.status.status(replace(connector_status("c", State.RUNNING), version="1.0.0"))
    leader.report("c", 0, State.RUNNING, version="1.0.0")
    told = body(client.get("/connectors/c/status"))
    assert (told["connector"]["version"], told["tasks"][0]["version"]) == ("1.0.0", "1.0.0")


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/", "GET, HEAD, OPTIONS"), ("/connectors", "GET, POST, HEAD, OPTIONS"), ("/health", "GET, HEAD, OPTIONS")],
)
def test_options_tells_the_methods(client: Client, path: str, methods: str) -> None:
    response = client.options(path)
    assert (response.status_code, response["content-type"], response["allow"]) == (200, "text/plain", methods)
    assert response.content.decode() == methods


def test_offsets(client: Client, leader: FakeLeader) -> None:
    create(client)
    leader.offsets.offset("c", {"id": 0}, {"seqno": 41})
    leader.project()
    assert body(client.get("/connectors/c/offsets")) == {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": 41}}]}
    assert client.put("/connectors/c/stop").status_code == 204
    sent = {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": 7, "f": 1.5}}, {"partition": {"id": 1}}]}
    response = client.patch("/connectors/c/offsets", sent, content_type=JSON)
    assert response.status_code == 200
    assert body(response)["message"]
    altered = [{"partition": {"id": 0}, "offset": {"seqno": 7, "f": 1.5}}, {"partition": {"id": 1}, "offset": None}]
    assert leader.asked[-1] == ("alter_offsets", "c", {"offsets": altered})
    assert client.delete("/connectors/c/offsets").status_code == 200
    bodies: list[dict[str, Any]] = [
        {},
        {"offsets": []},
        {"offsets": [1]},
        {"offsets": [{"partition": 1}]},
        {"offsets": {}},
    ]
    for bad in bodies:
        assert client.patch("/connectors/unknown/offsets", bad, content_type=JSON).status_code == 400


def test_offsets_in_a_topic_of_the_connectors_own_are_asked_of_a_worker(client: Client, leader: FakeLeader) -> None:
    create(client, config={**CONFIG, "offsets.storage.topic": "mine"})
    leader.offsets.offset("c", {"id": 0}, {"seqno": 41})  # a copy, which may be older
    leader.project()
    assert body(client.get("/connectors/c/offsets")) == {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": 43}}]}
    assert leader.asked[-1][:2] == ("offsets", "c")


def test_plugins(client: Client) -> None:
    java = "org.apache.kafka.connect.tools.VerifiableSourceConnector"
    connectors = [{"class": name, "type": "source", "version": "0.1.0"} for name in ("VerifiableSource", java)]
    assert body(client.get("/connector-plugins")) == connectors
    assert client.get("/connector-plugins/VerifiableSource/config").status_code == 200
    assert client.get("/connector-plugins/VerifiableSource/config?version=latest").status_code == 200
    assert client.get("/connector-plugins/Nothing/config").status_code == 404
    response = client.put("/connector-plugins/VerifiableSource/config/validate", {}, content_type=JSON)
    assert (response.status_code, body(response)["error_count"]) == (200, 3)


def test_converters_transforms_and_predicates_are_listed_under_kafka_connects_names(client: Client) -> None:
    listed = body(client.get("/connector-plugins?connectorsOnly=false"))
    rows = {(row["class"], row["type"]): row.get("version") for row in listed}
    for class_name, kind in (
        ("org.apache.kafka.connect.json.JsonConverter", "converter"),
        ("org.apache.kafka.connect.storage.SimpleHeaderConverter", "header_converter"),
        ("org.apache.kafka.connect.transforms.Cast$Value", "transformation"),
        ("org.apache.kafka.connect.transforms.predicates.TopicNameMatches", "predicate"),
    ):
        assert rows[class_name, kind] == "4.3.0"
        for version in ("", "?version=latest", "?version=4.3.0"):
            assert client.get(f"/connector-plugins/{class_name}/config{version}").status_code == 200
    names = [key["name"] for key in body(client.get("/connector-plugins/Cast$Value/config"))]
    assert names == ["spec", "replace.null.with.default"]
    refused = client.get("/connector-plugins/Cast$Value/config?version=1")
    assert (refused.status_code, body(refused)["message"]) == (
        400,
        "Version 1 of Cast$Value is not installed; installed is 4.3.0",
    )


def test_media_types_and_methods(client: Client) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        response = client.generic("PUT", "/connectors/c/pause", b"x", content_type=content_type)
        assert (response.status_code, body(response)["error_code"]) == (415, 415)
    assert client.generic("POST", "/connectors", b"{}", content_type="").status_code == 415
    response = client.get("/connectors", headers={"accept": "text/html"})
    assert (response.status_code, body(response)["error_code"]) == (406, 406)
    response = client.put("/connectors", content_type=JSON)
    assert (response.status_code, body(response)["error_code"]) == (405, 405)
    assert "POST" in response["allow"]


def test_health(client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.api import root

    leader.refusal = Refusal(503, "Redis does not answer", retry=True)
    response = client.get("/health")
    assert (response.status_code, body(response)["status"]) == (503, "starting")
    root._cache.until = 0
    leader.refusal = None
    assert body(client.get("/health"))["status"] == "healthy"
    leader.refusal = Refusal(503, "Redis does not answer", retry=True)
    assert client.get("/health").status_code == 200, "the answer holds for a second"
    root._cache.until = 0
    response = client.get("/health")
    assert (response.status_code, body(response)["status"]) == (500, "unhealthy")


def test_a_lost_topic_is_said_by_health_and_the_overview_and_empties_nothing(client: Client) -> None:
    from ringfence.api import root

    create(client)
    cluster_topics.store_loss("The config topic is gone")
    root._cache.until = 0
    response = client.get("/health")
    assert (response.status_code, body(response)["message"]) == (500, "The config topic is gone")
    assert body(client.get("/connectors")) == ["c"]
    assert "The config topic is gone" in client.get("/ui/").content.decode()


def test_refusals_keep_their_status_and_words(client: Client, leader: FakeLeader) -> None:
    create(client)
    leader.refusal = Refusal(503, "no leader", retry=True)
    response = client.put("/connectors/c/pause")
    assert (response.status_code, response["retry-after"]) == (503, "1")
    assert body(response) == {"error_code": 503, "message": "no leader"}
    leader.refusal = Refusal(409, "Connector c already exists")
    assert "retry-after" not in client.put("/connectors/c/pause").headers


def test_an_unreadable_connector_is_failed_with_the_reason(client: Client, leader: FakeLeader) -> None:
    leader.config.raw(b"connector-c", b"{")
    leader.project()
    told = body(client.get("/connectors/c/status"))["connector"]
    assert told["state"] == "FAILED"
    assert "offset 0" in told["trace"]


def test_statuses_of_a_connector_that_came_first_show_once_it_is_known(client: Client, leader: FakeLeader) -> None:
    leader.status.status(connector_status("c", State.RUNNING))
    leader.project()
    assert client.get("/connectors/c/status").status_code == 404
    create(client)
    assert body(client.get("/connectors/c/status"))["connector"]["state"] == "RUNNING"


def refusal(*errors: str) -> str:
    """The message of an invalid configuration."""
    first = f"Connector configuration is invalid and contains the following {len(errors)} error(s):"
    last = "You can also find the above list of errors at the endpoint "
    return "\n".join([first, *errors, last + "`/connector-plugins/{connectorType}/config/validate`"])


EMPTY = "Invalid value  for configuration name: String may not be empty"
CONTROL = (
    r"Invalid value a\x07b for configuration name: "
    "String may not contain control sequences but had the following ASCII chars: 7"
)


@pytest.mark.parametrize(
    ("method", "path", "sent", "error"),
    [
        ("post", "/connectors", {"config": CONFIG}, EMPTY),
        ("post", "/connectors", {"name": None, "config": CONFIG}, EMPTY),
        ("post", "/connectors", {"name": " \x01", "config": CONFIG}, EMPTY),
        ("post", "/connectors", {"name": "a\x07b", "config": CONFIG}, CONTROL),
        ("put", "/connectors/%20/config", CONFIG, EMPTY),
        ("put", "/connectors//config", CONFIG, EMPTY),
        ("put", "/connectors/a%07b/config", CONFIG, CONTROL),
        ("get", "/connectors/a%07b/status", None, CONTROL),
    ],
)
def test_a_refused_name_has_the_message_of_an_invalid_configuration(
    client: Client, leader: FakeLeader, method: str, path: str, sent: Any, error: str
) -> None:
    response = getattr(client, method)(path, sent, content_type=JSON)
    assert (response.status_code, body(response)["message"]) == (400, refusal(error))
    assert leader.asked == []


def test_all_nulls_are_named_in_the_message_of_an_invalid_configuration(client: Client) -> None:
    told = body(client.put("/connectors/c/config", {**CONFIG, "a": None, "b": None}, content_type=JSON))
    null = "Null value can not be supplied as the configuration value for {}."
    assert told["message"] == refusal(null.format("a"), null.format("b"))


def test_a_null_for_the_name_in_a_configuration_counts_as_none(client: Client) -> None:
    assert client.put("/connectors/c/config", {**CONFIG, "name": None}, content_type=JSON).status_code == 201


def test_the_last_of_several_offsets_of_one_partition_counts(client: Client, leader: FakeLeader) -> None:
    create(client)
    entries = [{"partition": {"a": 1, "b": 2}, "offset": {"n": 1}}, {"partition": {"b": 2, "a": 1}, "offset": {"n": 2}}]
    client.patch("/connectors/c/offsets", {"offsets": entries}, content_type=JSON)
    assert [entry["offset"] for entry in leader.asked[-1][2]["offsets"]] == [{"n": 2}]


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1e400"])
def test_numbers_that_no_reader_of_offsets_could_hold_are_refused(
    client: Client, leader: FakeLeader, number: str
) -> None:
    create(client)
    sent = '{"offsets": [{"partition": {"a": 1}, "offset": {"n": NUMBER}}]}'.replace("NUMBER", number)
    response = client.patch("/connectors/c/offsets", sent, content_type=JSON)
    assert response.status_code == 400
    assert f"field n contains {number}, which is beyond a" in body(response)["message"]
    assert leader.asked[-1][0] == "create"
