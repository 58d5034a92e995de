"""`/api/v1/…/config` and its versions: ETags, differences, rollback; and a POST that is sent twice is done once."""

from typing import Any

import pytest
from django.test import Client

from ringfence.dispatch import CommandResult, Refusal
from ringfence.engine.leader.commands import Configure
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_records import ConnectorRecord
from ringfence.fencing.topics.topic_ids import Topic, TopicIds
from tests.support.accounts import JSON, account, bearer
from tests.support.leader import FakeLeader
from tests.support.own_api import problem, results

AT = "/api/v1/connectors/team-a"
BASE = {"connector.class": "VerifiableSource", "topic": "t", "pin": "hunter2"}


def put(client: Client, config: dict[str, str], **headers: str) -> Any:
    return client.put(f"{AT}/config", config, content_type=JSON, headers=headers)


def test_a_change_with_the_etag_of_an_older_configuration_is_a_412(client: Client, two_connectors: FakeLeader) -> None:
    shown = client.get(f"{AT}/config")
    tag = shown["etag"]
    assert shown.json()["pin"] == "[hidden]"
    assert client.get(f"{AT}/config", headers={"if-none-match": tag}).status_code == 304
    changed = put(client, {**shown.json(), "topic": "u"}, **{"if-match": tag})
    assert changed.status_code == 200
    assert two_connectors.asked[-1][2]["config"] == {**BASE, "name": "team-a", "topic": "u"}
    assert two_connectors.asked[-1][2]["create"] is False
    assert changed["etag"] != tag
    before = list(two_connectors.asked)
    for wrong in (tag, f"W/{changed['etag']}", '"x"', "x"):
        assert changed["etag"] in problem(put(client, BASE, **{"if-match": wrong}), 412)
    problem(put(client, BASE, **{"if-none-match": "*"}), 412)
    problem(client.put("/api/v1/connectors/new/config", BASE, content_type=JSON, headers={"if-match": "*"}), 412)
    assert two_connectors.asked == before
    assert put(client, BASE, **{"if-match": f'"0", {changed["etag"]}'}).status_code == 200
    assert put(client, BASE).status_code == 200
    fresh = client.put("/api/v1/connectors/new/config", BASE, content_type=JSON, headers={"if-none-match": "*"})
    assert fresh.status_code == 201


def test_a_change_that_came_between_is_a_412_too(
    client: Client,
    two_connectors: FakeLeader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ringfence import dispatch

    def meanwhile(request: Configure, **_: Any) -> CommandResult[Any]:
        name = request.connector
        two_connectors.config.config(ConnectorRecord(ConnectorName(name), {**BASE, "name": name, "topic": "theirs"}))
        two_connectors.project()
        raise Refusal(409, "The connector's configuration was changed in between", retry=True)

    tag = client.get(f"{AT}/config")["etag"]
    monkeypatch.setattr(dispatch, "command", meanwhile)
    problem(put(client, BASE, **{"if-match": tag}), 412)


def test_each_configuration_becomes_a_version_whichever_way_it_came(client: Client, two_connectors: FakeLeader) -> None:
    client.put("/connectors/team-a/config", {**BASE, "topic": "u"}, content_type=JSON)
    client.patch("/connectors/team-a/config", {"topic": None, "tasks.max": "2", "topic2": "x"}, content_type=JSON)
    two_connectors.config.config(
        ConnectorRecord(ConnectorName("team-a"), {**BASE, "name": "team-a", "topic": "by hand"})
    )
    two_connectors.config.config(
        ConnectorRecord(ConnectorName("team-a"), {**BASE, "name": "team-a", "topic": "by hand"})
    )
    two_connectors.project()
    shown = results(client, f"{AT}/versions")
    topics = [row["config"].get("topic") for row in shown]
    assert topics[0] == "by hand"
    assert topics[-2:] == ["u", "t"]
    assert [row["number"] for row in shown] == list(range(len(shown), 0, -1))
    assert [row["current"] for row in shown] == [True] + [False] * (len(shown) - 1)
    assert b"hunter2" not in client.get(f"{AT}/versions").content
    assert client.get(f"{AT}/versions/1").json()["config"]["topic"] == "t"
    for missing in ("99", "12345678901234567890"):
        problem(client.get(f"{AT}/versions/{missing}"), 404)


def test_versions_outlive_a_projection_that_is_made_anew(client: Client, two_connectors: FakeLeader) -> None:
    from ringfence.projection.projector import Projection

    put(client, {**BASE, "topic": "u"})
    again = Projection("config", "config", "another id", TopicIds(1, {"config": Topic("config", "another id")}))
    again.apply(two_connectors.config.records[-1:], {0: 100})
    again.apply(two_connectors.config.records[:0], {0: 100})
    assert [row["number"] for row in results(client, f"{AT}/versions")] == [2, 1]


def test_a_difference_names_secrets_that_changed_and_shows_none(client: Client, two_connectors: FakeLeader) -> None:
    put(client, {"connector.class": "VerifiableSource", "topic": "u", "pin": "hunter3", "tasks.max": "2"})
    response = client.get(f"{AT}/versions/1/diff")
    body = response.json()
    assert body["added"] == {"tasks.max": "2"}
    assert body["changed"]["topic"] == {"before": "t", "after": "u"}
    assert body["changed"]["pin"] == {"before": "[hidden]", "after": "[hidden]"}
    assert b"hunter" not in response.content
    assert client.get(f"{AT}/versions/2/diff?to=1").json()["removed"] == {"tasks.max": "2"}
    for wrong, status in (("?to=9", 404), ("?to=x", 400), ("?from=1", 400)):
        problem(client.get(f"{AT}/versions/1/diff{wrong}"), status)


def test_a_rollback_sets_the_old_configuration_again_with_its_secrets(
    client: Client, two_connectors: FakeLeader
) -> None:
    tag = client.get(f"{AT}/config")["etag"]
    put(client, {**BASE, "topic": "u", "pin": "hunter3"})
    problem(client.post(f"{AT}/versions/1/rollback", content_type=JSON, headers={"if-match": tag}), 412)
    answer = client.post(f"{AT}/versions/1/rollback", content_type=JSON)
    assert answer.status_code == 200
    assert two_connectors.asked[-1][2]["config"] == {**BASE, "name": "team-a"}
    assert (answer.json()["number"], answer.json()["current"], answer.json()["config"]["pin"]) == (3, True, "[hidden]")
    problem(client.post(f"{AT}/versions/77/rollback", content_type=JSON), 404)
    problem(client.post(f"{AT}/versions/1/rollback", {"what": 1}, content_type=JSON), 400)


def test_versions_need_the_verbs_of_the_configuration(
    client: Client, two_connectors: FakeLeader, login_required: None
) -> None:
    looker = bearer(account("ann", ("view", "*")))
    for path in ("config", "versions", "versions/1", "versions/1/diff"):
        assert "`view-config`" in problem(client.get(f"{AT}/{path}", headers=looker), 403)
    viewer = bearer(account("bob", ("viewer", "*")))
    assert "`edit`" in problem(client.post(f"{AT}/versions/1/rollback", content_type=JSON, headers=viewer), 403)
    assert "`edit`" in problem(client.put(f"{AT}/config", BASE, content_type=JSON, headers=viewer), 403)


def test_a_deleted_connector_is_created_again_from_a_version(client: Client, two_connectors: FakeLeader) -> None:
    assert results(client, "/api/v1/deleted-connectors") == []
    assert client.delete("/connectors/team-a").status_code == 204
    (listed,) = results(client, "/api/v1/deleted-connectors")
    assert (listed["name"], listed["version"], listed["class_name"]) == ("team-a", 1, "VerifiableSource")
    assert [row["number"] for row in results(client, f"{AT}/versions")] == [1]
    assert client.get(f"{AT}/versions/1/diff").status_code == 200
    problem(client.post(f"{AT}/versions/1/rollback", content_type=JSON, headers={"if-match": "*"}), 412)
    problem(client.post(f"{AT}/versions/1/rollback", {"initial_state": "ODD"}, content_type=JSON), 400)
    answer = client.post(f"{AT}/versions/1/rollback", {"initial_state": "STOPPED"}, content_type=JSON)
    assert answer.status_code == 200
    kind, name, asked = two_connectors.asked[-1]
    assert (kind, name, asked["initial_state"]) == ("create", "team-a", "STOPPED")
    assert asked["config"]["pin"] == "hunter2"
    problem(client.post(f"{AT}/versions/1/rollback", {"initial_state": "STOPPED"}, content_type=JSON), 400)
    problem(client.get("/api/v1/connectors/never/versions"), 404)


def test_a_post_under_one_key_is_carried_out_once(client: Client, two_connectors: FakeLeader) -> None:
    def post(body: dict[str, Any], key: str = "k-1") -> Any:
        return client.post(f"{AT}/fence", body, content_type=JSON, headers={"idempotency-key": key})

    body = {"reason": "x", "transactional_id": "g-team-a-0"}
    first, second = post(body), post(body)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()
    assert second["idempotency-replayed"] == "true"
    assert [kind for kind, _, _ in two_connectors.asked].count("fence_id") == 1
    problem(post({"reason": "another"}), 422)
    problem(post(body, ""), 400)
    problem(post(body, "k" * 256), 400)
    two_connectors.refusal = Refusal(409, "not now", retry=True)
    problem(post(body, "k-2"), 409)
    two_connectors.refusal = None
    assert post(body, "k-2").status_code == 200
    two_connectors.refusal = Refusal(500, "Request timed out")
    problem(post(body, "k-3"), 500)
    two_connectors.refusal = None
    assert "timed out" in problem(post(body, "k-3"), 500)
    assert [kind for kind, _, _ in two_connectors.asked].count("fence_id") == 4


def test_a_key_that_is_at_work_is_not_used_twice(client: Client, two_connectors: FakeLeader) -> None:
    from ringfence.history.models import RepeatedRequest

    def post() -> Any:
        return client.post(f"{AT}/fence", {"reason": "x"}, content_type=JSON, headers={"idempotency-key": "k"})

    assert post().status_code == 200
    RepeatedRequest.objects.update(status=0)
    assert "repeat it with a new key" in problem(post(), 409)
