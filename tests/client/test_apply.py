"""`ringfence apply` and `ringfence export`, with the whole server in this process."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User
from django.test import override_settings

from ringfence import cli
from ringfence.access.models import Grant
from ringfence.client.output import Exit
from tests.support.accounts import account, bearer
from tests.support.client_runs import CONFIG, Captured
from tests.support.leader import FakeLeader

PIN = "123456-the-pin"
HOOK = "https://chat.example.com/hooks/the-path-is-a-secret"
FILES = """
kind: AlertDestination
name: chat
type: webhook
url: {hook}
secret: a-secret-of-the-destination
---
kind: AlertRule
name: failed
type: failed
seconds: 120
destinations: [chat]
---
kind: Grant
account: ann
allow: [editor, fence]
pattern: team-a-*
topics: [team-a.*, shared]
tasks: 50
---
kind: Connector
name: orders
state: paused
config:
  connector.class: VerifiableSource
  topic: orders
  pin: {pin}
---
name: lines
config: {{connector.class: VerifiableSource, topic: lines}}
"""


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = cli.main([*arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    account("ann")
    files = tmp_path / "files"
    (files / "below").mkdir(parents=True)
    (files / "below" / "all.yaml").write_text(FILES.format(hook=HOOK, pin=PIN))
    (files / "README.md").write_text("not a document")
    return files


@pytest.fixture
def applied(folder: Path, capsys: Captured) -> Path:
    assert cli.main(["apply", "-f", str(folder)]) == 0
    capsys.readouterr()
    return folder


def change(folder: Path, old: str, new: str) -> None:
    file = folder / "below" / "all.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_plan_shows_everything_but_secrets_and_changes_nothing(
    folder: Path, leader: FakeLeader, capsys: Captured
) -> None:
    code, out, _ = run(capsys, "apply", "-f", str(folder), "--dry-run")
    assert code == Exit.CHANGES
    assert "+ connector orders (paused)" in out
    assert "    + topic = orders" in out
    assert "    + pin = [hidden]" in out
    assert "+ alert destination chat" in out
    assert "    + url = https://chat.example.com/[hidden]" in out
    assert "+ grant to ann: editor fence on team-a-*" in out
    assert "    + tasks = 50" in out
    assert "Plan: 5 to create, 0 to change, 0 to remove, 0 unchanged." in out
    for secret in (PIN, "the-path", "a-secret-of"):
        assert secret not in out
    assert leader.asked == []
    assert run(capsys, "apply", "-f", str(folder), "--dry-run")[1] == out


def test_applied_once_nothing_is_left_to_do(folder: Path, leader: FakeLeader, capsys: Captured) -> None:
    code, out, _ = run(capsys, "apply", "-f", str(folder))  # creating asks for nothing
    assert code == 0
    assert out.index("alert destination chat: created") < out.index("alert rule failed: created")
    assert ("create", "orders") in [(name, on) for name, on, _ in leader.asked]
    code, out, _ = run(capsys, "apply", "-f", str(folder), "--prune")
    assert (code, out) == (0, "Plan: 0 to create, 0 to change, 0 to remove, 5 unchanged.\n")


def test_an_export_applied_again_changes_nothing(applied: Path, tmp_path: Path, capsys: Captured) -> None:
    code, out, _ = run(capsys, "export", "-d", str(tmp_path / "export"))
    assert code == 0
    texts = {path.name: path.read_text() for path in (tmp_path / "export").iterdir()}
    assert "connector-orders.yaml" in texts
    assert yaml.safe_load(texts["connector-orders.yaml"])["state"] == "paused"
    assert not [secret for secret in (PIN, "the-path", "a-secret-of") if secret in "".join(texts.values())]
    code, out, _ = run(capsys, "apply", "-f", str(tmp_path / "export"), "--prune", "--dry-run")
    assert (code, "0 to create, 0 to change, 0 to remove" in out) == (0, True), out
    code, everything, _ = run(capsys, "export")
    (tmp_path / "one.yaml").write_text(everything)
    assert run(capsys, "apply", "-f", str(tmp_path / "one.yaml"), "--dry-run")[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (PIN, "another-pin-654321", "~ connector orders"),
        ("the-path-is-a-secret", "another-path-is-it-now", "~ alert destination chat"),
        ("a-secret-of-the-destination", "another-secret-of-a-destination", "~ alert destination chat"),
    ],
)
def test_a_secret_that_changed_is_noticed_and_not_shown(
    applied: Path, capsys: Captured, old: str, new: str, what: str
) -> None:
    change(applied, old, new)
    code, out, _ = run(capsys, "apply", "-f", str(applied), "--dry-run")
    assert code == Exit.CHANGES
    assert what in out
    assert "1 to change" in out
    assert old not in out
    assert new not in out
    assert run(capsys, "apply", "-f", str(applied), "--yes")[0] == 0
    assert run(capsys, "apply", "-f", str(applied), "--dry-run")[0] == 0


def test_what_stops_records_is_marked_and_asks(applied: Path, leader: FakeLeader, capsys: Captured) -> None:
    leader.start("lines")
    change(applied, "topic: lines", "topic: other")
    code, out, _ = run(capsys, "apply", "-f", str(applied), "--dry-run")
    assert "~ connector lines   ! its tasks start again" in out
    assert "    ~ topic = lines -> other" in out
    before = len(leader.asked)
    code, _, err = run(capsys, "apply", "-f", str(applied))  # no terminal
    assert (code, len(leader.asked)) == (Exit.USAGE, before)
    assert "--yes" in err
    assert run(capsys, "apply", "-f", str(applied), "--yes")[0] == 0
    assert leader.asked[-1][:2] == ("configure", "lines")


def test_states_are_reached_in_the_safe_order(applied: Path, leader: FakeLeader, capsys: Captured) -> None:
    leader.start("lines")
    change(applied, "name: lines\n", "name: lines\nstate: stopped\n")
    change(applied, "topic: lines", "topic: other")
    change(applied, "state: paused", "state: running")
    _code, out, _ = run(capsys, "apply", "-f", str(applied), "--dry-run")
    assert "~ connector lines   ! its records stop" in out
    assert "    ~ state: paused -> running" in out
    before = len(leader.asked)
    assert run(capsys, "apply", "-f", str(applied), "--yes")[0] == 0
    assert [(name, on) for name, on, _ in leader.asked[before:]] == [
        ("resume", "orders"), ("stop", "lines"), ("configure", "lines"),
    ]  # fmt: skip


def test_prune_removes_only_kinds_that_files_have(applied: Path, leader: FakeLeader, capsys: Captured) -> None:
    leader.start("lines")
    (applied / "below" / "all.yaml").write_text(f"name: orders\nconfig: {json.dumps({**CONFIG, 'topic': 'orders'})}\n")
    _, out, _ = run(capsys, "apply", "-f", str(applied), "--prune", "--dry-run")
    assert "- connector lines   ! its records end" in out
    assert "1 to remove" in out
    assert "grant" not in out
    assert run(capsys, "apply", "-f", str(applied), "--dry-run")[1].count("to remove") == 1  # none without --prune
    _code, out, _ = run(capsys, "apply", "-f", str(applied), "--prune", "--yes")
    assert "connector lines: removed" in out
    assert leader.asked[-1][:2] == ("delete", "lines")


def test_grants_are_replaced_and_revoked(applied: Path, capsys: Captured) -> None:
    from ringfence.access.models import Grant

    change(applied, "allow: [editor, fence]", "allow: [fence, editor]")  # the same ones
    assert run(capsys, "apply", "-f", str(applied), "--dry-run")[0] == 0
    change(applied, "topics: [team-a.*, shared]", "topics: [team-a.*]")
    code, out, _ = run(capsys, "apply", "-f", str(applied), "--dry-run")
    assert "~ grant to ann: fence editor on team-a-*   ! tasks that write to other topics fail" in out
    assert run(capsys, "apply", "-f", str(applied), "--yes")[0] == 0
    (row,) = Grant.objects.all()
    assert (row.what, row.topics, row.tasks) == ("editor fence", "team-a.*", 50)
    change(applied, "pattern: team-a-*", "pattern: team-b-*")
    code, out, _ = run(capsys, "apply", "-f", str(applied), "--prune", "--yes")
    assert code == 0
    assert [row.pattern for row in Grant.objects.all()] == ["team-b-*"]


def test_the_last_administrator_stays(applied: Path, capsys: Captured) -> None:
    from ringfence.access.models import Grant

    account("root", ("admin", "*"))
    code, _out, err = run(capsys, "apply", "-f", str(applied), "--prune", "--yes")
    assert code == Exit.CONFLICT
    assert "no account could administer" in err
    assert Grant.objects.filter(user__username="root").exists()


def test_what_the_server_refuses_changes_nothing(applied: Path, leader: FakeLeader, capsys: Captured) -> None:
    (applied / "bad.json").write_text(json.dumps({"name": "bad", "config": {"connector.class": "VerifiableSource"}}))
    before = len(leader.asked)
    code, out, err = run(capsys, "apply", "-f", str(applied))
    assert code == Exit.INVALID
    assert "x connector bad: " in out
    assert "Nothing was changed" in err
    assert len(leader.asked) == before


STRIMZI = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaConnector
metadata:
  name: numbers
  labels: {strimzi.io/cluster: mine}
spec:
  class: VerifiableSource
  tasksMax: 2
  autoRestart: {enabled: true, maxRestarts: 3}
  state: stopped
  config:
    topic: numbers
    throughput: 5
  listOffsets: {toConfigMap: {name: x}}
status: {observedGeneration: 1}
"""


def test_strimzis_connectors_are_read(tmp_path: Path, leader: FakeLeader, capsys: Captured) -> None:
    file = tmp_path / "numbers.yaml"
    file.write_text(STRIMZI)
    code, out, err = run(capsys, "apply", "-f", str(file))
    assert code == 0, err
    assert "+ connector numbers (stopped)" in out
    assert "listOffsets is not followed" in err
    body = leader.asked[-1][2]
    assert body["initial_state"] == "STOPPED"
    assert body["config"] == {
        "name": "numbers", "connector.class": "VerifiableSource", "tasks.max": "2", "topic": "numbers",
        "throughput": "5", "auto.restart.enabled": "true", "auto.restart.max.attempts": "3",
    }  # fmt: skip
    assert run(capsys, "apply", "-f", str(file), "--dry-run")[0] == 0
    file.write_text(STRIMZI.replace("state: stopped", "pause: true"))  # as older versions have it
    assert "~ state: stopped -> paused" in run(capsys, "apply", "-f", str(file), "--dry-run")[1]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("kind: Topic\nname: x", "kind Topic is unknown"),
        ("kind: AlertRule\nname: x\ntype: failed\nsecond: 5", "second is unknown here"),
        ("kind: AlertRule\nname: x\ntype: failed\nseconds: soon", "seconds must be an integer"),
        ("kind: AlertRule\nname: x\ntype: failed\nenabled: maybe", "enabled must be true or false"),
        ("kind: Grant\naccount: ann", "allows nothing"),
        ("kind: Connector\nname: x\nstate: asleep\nconfig: {topic: t}", "state asleep is unknown"),
        ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic", "only KafkaConnector"),
        ("name: x\nconfig: {topic: t}\n---\nname: x\nconfig: {topic: t}", "x is there twice"),
        ("- 1", "must be a map"),
        ("", "nothing to apply"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, capsys: Captured, text: str, word: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    code, _, err = run(capsys, "apply", "-f", str(file))
    assert code == Exit.INVALID
    assert word in err


@pytest.fixture
def logged_in(applied: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls with the token of an account that may edit team-a's connectors."""
    team = account("team", ("editor", "team-a-*"))
    token = bearer(team)["authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("RINGFENCE_TOKEN", token)
    with override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"]):
        yield


@pytest.mark.usefixtures("logged_in")
def test_the_callers_permissions_hold(applied: Path, tmp_path: Path, leader: FakeLeader, capsys: Captured) -> None:
    code, _, err = run(capsys, "apply", "-f", str(applied), "--dry-run")
    assert code == Exit.NOT_ALLOWED
    own = tmp_path / "own.yaml"
    own.write_text("name: team-a-x\nconfig: {connector.class: VerifiableSource, topic: t}")
    assert run(capsys, "apply", "-f", str(own), "--prune", "--yes")[0] == 0  # others' are not seen, and not removed
    assert [on for name, on, _ in leader.asked if name == "delete"] == []
    own.write_text("name: other\nconfig: {connector.class: VerifiableSource, topic: t}")
    code, out, err = run(capsys, "apply", "-f", str(own))
    assert code == Exit.NOT_ALLOWED
    code, out, err = run(capsys, "export")
    assert code == 0
    assert "Grant: left out" in err
    assert [document["name"] for document in yaml.safe_load_all(out)] == ["team-a-x"]


def test_connectors_apply_hides_the_secrets_of_a_new_connector(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "new.json"
    file.write_text(json.dumps({"name": "new", "config": {**CONFIG, "pin": PIN, "db.password": "p-4711"}}))
    code, out, _ = run(capsys, "connectors", "apply", "-f", str(file))
    assert code == 0
    assert "+ topic = t" in out
    assert PIN not in out
    assert "p-4711" not in out
    file.write_text(json.dumps({"name": "new", "config": {**CONFIG, "api.key": "k-4712", "tasks.max": "2"}}))
    code, out, _ = run(capsys, "connectors", "apply", "-f", str(file), "--dry-run")
    assert code == 0
    assert "+ tasks.max = 2" in out
    assert "- pin = [hidden]" in out
    assert "k-4712" not in out


FORGED = "t\n+ grant to mallory: admin on *\r\x1b[2K\x9b1A\u202e"


def test_a_value_cannot_hide_or_forge_what_a_plan_shows(tmp_path: Path, leader: FakeLeader, capsys: Captured) -> None:
    """Files come from others, and so do the names and values that the server has."""
    file = tmp_path / "new.json"
    file.write_text(json.dumps({"name": "new", "config": {**CONFIG, "topic": FORGED}}))
    for arguments in (["apply"], ["connectors", "apply"]):
        code, out, _ = run(capsys, *arguments, "-f", str(file), "--dry-run")
        assert code in (0, Exit.CHANGES)
        assert "topic = t\\n+ grant to mallory" in out
        assert not [line for line in out.splitlines() if line.strip().startswith("+ grant")]
        assert not set(out) & set("\r\x1b\x9b\u202e")
    assert run(capsys, "apply", "-f", str(file), "--yes")[0] == 0
    file.write_text(json.dumps({"name": FORGED, "config": CONFIG}))
    for arguments in (["apply", "-f", str(file)], ["connectors", "get", "new"], ["connectors", "list"]):
        _, out, err = run(capsys, *arguments)
        assert out + err
        assert not set(out + err) & set("\r\x1b\x9b\u202e"), arguments


@pytest.mark.parametrize("what", ["out", "fifo", "folder", "large"])
def test_a_folder_from_others_holds_only_its_own_files(tmp_path: Path, capsys: Captured, what: str) -> None:
    (tmp_path / "secret.yaml").write_text("name: secret\nconfig: {topic: the-secret}")
    folder = tmp_path / "theirs"
    folder.mkdir()
    file = folder / "a.properties"
    match what:
        case "out":
            file.symlink_to(tmp_path / "secret.yaml")
        case "fifo":
            os.mkfifo(file)
        case "folder":
            file.symlink_to(folder)
        case "large":
            with file.open("wb") as hole:
                hole.truncate(1 << 40)
    code, out, err = run(capsys, "apply", "-f", str(folder))
    assert code == Exit.INVALID
    assert "the-secret" not in out + err


def test_a_config_map_in_a_pod_is_read_once(tmp_path: Path, capsys: Captured) -> None:
    """As Kubernetes mounts it, with a repository's own folder beside it."""
    (tmp_path / "..2026_11_29").mkdir()
    (tmp_path / "..2026_11_29" / "a.yaml").write_text("name: a\nconfig: {connector.class: VerifiableSource, topic: t}")
    (tmp_path / "..data").symlink_to("..2026_11_29")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github" / "ci.yml").write_text("on: push")
    assert run(capsys, "apply", "-f", str(tmp_path), "--dry-run")[:1] == (Exit.CHANGES,)


def test_every_object_is_exported_to_a_file_of_its_own(tmp_path: Path, leader: FakeLeader, capsys: Captured) -> None:
    """No name that somebody chose stops it, or takes the file of another object."""
    longest = "&" * 249
    names = {longest, longest[1:] + "b", "...", "a b", "a"}
    file = tmp_path / "all.json"
    file.write_text(json.dumps([{"name": name, "config": CONFIG} for name in names]))
    assert run(capsys, "apply", "-f", str(file))[0] == 0
    account("a-editor")
    account("a", ("editor", "b"))
    Grant.objects.create(user=User.objects.get(username="a"), what="editor", pattern="editor-b")
    Grant.objects.create(user=User.objects.get(username="a-editor"), what="editor", pattern="b")
    folder = tmp_path / "out" / "here"
    code, _, err = run(capsys, "export", "-d", str(folder))
    assert (code, err) == (0, ""), err
    documents = [yaml.safe_load(file.read_text()) for file in folder.iterdir()]
    assert {each["name"] for each in documents if each["kind"] == "Connector"} == names
    grants = {(each["account"], each["pattern"]) for each in documents if each["kind"] == "Grant"}
    assert grants == {("a", "b"), ("a", "editor-b"), ("a-editor", "b")}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["here"]
