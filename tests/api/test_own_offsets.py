"""`/api/v1/…/offset-snapshots` and `…/offsets/preview`: see, keep, change, undo."""

from typing import Any

import pytest
from django.test import Client

from tests.support.accounts import JSON, account, bearer
from tests.support.leader import FakeLeader
from tests.support.own_api import problem, results

AT = "/api/v1/connectors/team-a"


@pytest.fixture
def stopped(client: Client, two_connectors: FakeLeader) -> FakeLeader:
    two_connectors.offsets.offset("team-a", {"id": 0}, {"seqno": 5})
    two_connectors.offsets.offset("team-a", {"id": 1}, {"seqno": 6})
    assert client.put("/connectors/team-a/stop").status_code == 204
    two_connectors.start("team-a", tasks=0)
    return two_connectors


def test_a_change_through_the_connect_api_can_be_undone(client: Client, stopped: FakeLeader) -> None:
    change = {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": 99}}]}
    assert client.patch("/connectors/team-a/offsets", change, content_type=JSON).status_code == 200
    stopped.offsets.offset("team-a", {"id": 0}, {"seqno": 99})
    stopped.offsets.offset("team-a", {"id": 2}, {"seqno": 1})
    stopped.project()
    (snapshot,) = results(client, f"{AT}/offset-snapshots")
    assert (snapshot["number"], snapshot["partitions"]) == (1, 2)
    answer = client.post(f"{AT}/offset-snapshots/1/restore", content_type=JSON)
    assert answer.status_code == 200
    kind, _, body = stopped.asked[-1]
    assert kind == "alter_offsets"
    assert body["offsets"] == [
        {"partition": {"id": 0}, "offset": {"seqno": 5}},
        {"partition": {"id": 2}, "offset": None},
    ]
    assert [row["number"] for row in results(client, f"{AT}/offset-snapshots")] == [2, 1]
    assert len(client.get(f"{AT}/offset-snapshots/2").json()["offsets"]) == 3


def test_a_refused_change_leaves_no_snapshot(client: Client, two_connectors: FakeLeader) -> None:
    client.delete("/connectors/team-a/offsets")
    assert results(client, f"{AT}/offset-snapshots") == []


def test_what_is_restored_already_is_not_written_again(client: Client, stopped: FakeLeader) -> None:
    made = client.post(f"{AT}/offset-snapshots", {"why": "before the move"}, content_type=JSON)
    assert (made.status_code, made.json()["why"], made.json()["partitions"]) == (201, "before the move", 2)
    assert client.post(f"{AT}/offset-snapshots/1/restore", content_type=JSON).status_code == 200
    assert "alter_offsets" not in [kind for kind, _, _ in stopped.asked]


def test_a_preview_shows_before_and_after_and_changes_nothing(client: Client, stopped: FakeLeader) -> None:
    client.post(f"{AT}/offset-snapshots", content_type=JSON)
    before = list(stopped.asked)

    def preview(body: Any) -> Any:
        return client.post(f"{AT}/offsets/preview", body, content_type=JSON)

    change = {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": 1}}, {"partition": {"id": 7}}]}
    body = preview(change).json()
    assert body["movable"] is True
    assert body["offsets"] == [
        {"partition": {"id": 0}, "before": {"seqno": 5}, "after": {"seqno": 1}, "changes": True},
        {"partition": {"id": 7}, "before": None, "after": None, "changes": False},
    ]
    assert [each["after"] for each in preview({"reset": True}).json()["offsets"]] == [None, None]
    assert preview({"snapshot": 1}).json()["offsets"] == []
    wrongs: list[dict[str, Any]] = [
        {},
        {"reset": False},
        {"snapshot": "1"},
        {"reset": True, "snapshot": 1},
        {"offsets": []},
        {"x": 1},
    ]
    for wrong in wrongs:
        problem(preview(wrong), 400)
    problem(preview({"snapshot": 9}), 404)
    assert stopped.asked == before


def test_offsets_are_moved_with_their_own_verb_only(client: Client, stopped: FakeLeader, login_required: None) -> None:
    viewer = bearer(account("bob", ("viewer operate edit", "*")))
    for path in ("offset-snapshots", "offset-snapshots/1/restore", "offsets/preview"):
        assert "`offsets`" in problem(client.post(f"{AT}/{path}", {}, content_type=JSON, headers=viewer), 403)
    problem(client.get(f"{AT}/offset-snapshots/1", headers=viewer), 404)
    mine = bearer(account("ann", ("editor", "*")))
    problem(client.post(f"{AT}/offset-snapshots/9/restore", content_type=JSON, headers=mine), 404)
    problem(client.post(f"{AT}/offset-snapshots", {"why": 3}, content_type=JSON, headers=mine), 400)
