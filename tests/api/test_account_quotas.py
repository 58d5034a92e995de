"""What an account is told that asks for more than its quota."""

from typing import Any

import pytest
from django.test import Client

from ringfence.access import tokens
from ringfence.access.models import Grant
from ringfence.audit import accounts
from tests.support.accounts import account, bearer
from tests.support.leader import FakeLeader


@pytest.mark.usefixtures("login_required")
def test_a_request_past_the_quota_is_refused_with_what_to_do(leader: FakeLeader, client: Client) -> None:
    user = accounts.create("ann", None, ["editor"], "team-*", quotas={"connectors": 2})
    headers: Any = bearer(user)
    codes = []
    for number in range(4):
        config = {"connector.class": "VerifiableSource", "topic": "t"}
        body = {"name": f"team-{number}", "config": config}
        answer = client.post("/connectors", body, content_type="application/json", headers=headers)
        codes.append(answer.status_code)
    assert codes == [201, 201, 403, 403]
    assert "its quota is 2" in answer.json()["message"]
    put = client.put("/connectors/team-9/config", config, content_type="application/json", headers=headers)
    assert put.status_code == 403
    same = client.put("/connectors/team-1/config", config, content_type="application/json", headers=headers)
    assert same.status_code == 200
    accounts.grant("ann", ["editor"], "team-*", quotas={"connectors": 3})
    put = client.put("/connectors/team-9/config", config, content_type="application/json", headers=headers)
    assert put.status_code == 201
    assert accounts.grants_of(user) == [{"what": "editor", "pattern": "team-*", "topics": "*", "connectors": 3}]
    with pytest.raises(ValueError, match="connectors=-1"):
        accounts.grant("ann", ["editor"], "team-*", quotas={"connectors": -1})


GRANTS = "/api/v1/grants"
EVERYTHING = {"account": "ann", "allow": ["admin"]}


@pytest.mark.usefixtures("login_required")
def test_only_who_administers_everything_reads_and_writes_grants(client: Client) -> None:
    ann, boss = account("ann", ("editor fence", "team-*"), ("viewer", "*")), account("boss", ("admin", "*"))
    own = Grant.objects.get(user=ann, pattern="team-*")
    limited = tokens.create(boss, "topics", ["admin"], topics=["team.*"])[1]
    for headers in (
        bearer(ann),
        bearer(boss, "viewer editor fence delete"),
        bearer(boss, "admin", "team-*"),
        {"authorization": f"Bearer {limited}"},
    ):
        for method, path in (("get", GRANTS), ("get", f"{GRANTS}/{own.pk}"), ("delete", f"{GRANTS}/{own.pk}")):
            assert client.generic(method.upper(), path, headers=headers).status_code == 403, path
        assert client.post(GRANTS, EVERYTHING, content_type="application/json", headers=headers).status_code == 403
    assert Grant.objects.count() == 3
    assert client.post(GRANTS, EVERYTHING, content_type="application/json", headers=bearer(boss)).status_code == 201


@pytest.mark.usefixtures("login_required")
def test_no_grant_is_larger_than_the_database_takes(client: Client) -> None:
    account("ann")
    boss = bearer(account("boss", ("admin", "*")))

    def post(**changes: object) -> Any:
        body = {"account": "ann", "allow": ["viewer"], **changes}
        return client.post(GRANTS, body, content_type="application/json", headers=boss)

    assert post(allow=["viewer"] * 50).json()["allow"] == ["viewer"], "an index has room for 2,700 bytes"
    refused: list[dict[str, object]] = [
        {"allow": ["viewer"] * 101}, {"allow": ["viewer admin"]}, {"allow": []}, {"allow": "viewer"},
        {"account": "a\x00"},
        {"topics": ["t"] * 1001}, {"topics": ["t" * 301]}, {"topics": ["a\x00"]}, {"pattern": "p" * 301},
        {"tasks": 2**63}, {"tasks": -1}, {"tasks": True}, {"by_groups": True, "allow": "x"}, {"id": 1},
    ]  # fmt: skip
    for wrong in refused:
        assert post(**wrong).status_code == 400, wrong
    assert Grant.objects.filter(user__username="ann").count() == 1
