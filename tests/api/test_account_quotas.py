"""What an account is told that asks for more than its quota."""

from typing import Any

import pytest
from django.test import Client

from ringfence.audit import accounts
from tests.support.accounts import bearer
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
