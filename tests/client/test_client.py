"""The command line client against the real API, with a stand-in for the leader."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.test import Client

from ringfence import cli
from ringfence.client import documents, rest
from ringfence.client.output import ClientError, Exit
from ringfence.client.rest import segment
from ringfence.commands.completion import SCRIPTS, following
from ringfence.dispatch import Refusal
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.fencing.topics.status import State
from ringfence.projection.models import Connector, Worker
from tests.support.client_runs import CONFIG, Captured, write
from tests.support.leader import FakeLeader


def test_lists_as_table_json_and_yaml(two: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["connectors", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["NAME", "HEALTH", "STATE", "TASKS", "CLASS"],
        ["a", "HEALTHY", "RUNNING", "2/2", "VerifiableSource"],
        ["b", "c", "HEALTHY", "RUNNING", "1/1", "VerifiableSource"],
    ]
    cli.main(["connectors", "list", "-o", "json"])
    as_json = json.loads(capsys.readouterr().out)
    cli.main(["connectors", "list", "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == as_json
    assert as_json["a"]["info"]["config"]["pin"] == "[hidden]"
    assert as_json["a"]["health"] == "HEALTHY"


def test_every_account_of_a_connector_says_the_same(two: FakeLeader, capsys: Captured) -> None:
    """Its only task has failed, which Kafka Connect's state of the connector does not say."""
    two.report("b c", 0, State.FAILED, trace="ValueError: no number")
    two.offsets.offset("b c", {"n": 0}, {"at": 1}, AttemptCounts(0, 1, 1, RecordCounts(1_500, 2, 1)))
    two.project()
    assert cli.main(["connectors", "list"]) == 0
    (line,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("b c")]
    assert line == ["b", "c", "UNHEALTHY", "RUNNING", "0/1", "VerifiableSource"]
    assert cli.main(["connectors", "status", "b c"]) == 0
    told = capsys.readouterr().out
    assert "b c is UNHEALTHY: Its only task has failed" in told
    assert "1,500 committed, 1 as dead letters, 2 skipped" in told
    assert "Generation: 1 (at offset" in told
    assert "ValueError: no number" in told
    pages = Client(headers={"host": "localhost"})
    page = pages.get("/ui/connectors").content.decode()
    assert "Its only task has failed" in page
    assert "1,500" in page
    metrics = pages.get("/metrics").content.decode()
    assert 'ringfence_connector_health{connector="b c",health="unhealthy"} 1' in metrics
    assert 'ringfence_connector_records_total{connector="b c"} 1500' in metrics
    Worker.objects.create(worker="w9", incarnation="i", mode="disabled", slots=1, version="1", since_ms=0)
    Connector.objects.filter(name="b c").update(aborted_records_total=4)
    assert cli.main(["connectors", "status", "b c"]) == 0
    assert "1,500 committed (reported), 1 as dead letters, 2 skipped, 4 aborted (reported)" in capsys.readouterr().out


def test_get_tasks_and_plugins(two: FakeLeader, capsys: Captured) -> None:
    for command, shown in (
        (["connectors", "get", "b c"], "RUNNING, tasks: 1 RUNNING"),
        (["tasks", "list", "a"], "TASK  STATE"),
        (["tasks", "get", "a", "1"], "state: RUNNING"),
        (["tasks", "restart", "a", "1"], "restart of task 1"),
        (["plugins", "list"], "VerifiableSource"),
        (["plugins", "get", "VerifiableSource"], "topic"),
        (["connectors", "restart", "a", "--tasks", "--only-failed"], "restart requested"),
    ):
        assert cli.main(command) == 0, command
        assert shown in capsys.readouterr().out, command
    assert two.asked[-1] == ("restart", "a", {"include_tasks": True, "only_failed": True})
    assert two.asked[-2][:2] == ("restart_task", "a")


def test_apply_creates_changes_and_leaves_alone(leader: FakeLeader, tmp_path: Path, capsys: Captured) -> None:
    file = write(tmp_path / "c.yaml", "name: c\nconfig:\n  connector.class: VerifiableSource\n  topic: 1.50\n")
    assert cli.main(["connectors", "apply", "-f", file, "--dry-run"]) == 0
    assert "c: would be created" in capsys.readouterr().out
    assert leader.asked == []
    assert cli.main(["connectors", "apply", "-f", file]) == 0
    assert leader.asked[-1][2]["config"]["topic"] == "1.50"
    assert cli.main(["connectors", "apply", "-f", file]) == 0
    assert "c: unchanged" in capsys.readouterr().out
    asked = len(leader.asked)
    file = write(tmp_path / "c.properties", "# of ours\nname=c\nconnector.class: VerifiableSource\ntopic = u\n")
    assert cli.main(["connectors", "apply", "-f", file, "--dry-run"]) == 0
    assert "~ topic = 1.50 -> u" in capsys.readouterr().out
    assert len(leader.asked) == asked
    assert cli.main(["connectors", "apply", "-f", file]) == 0
    assert leader.asked[-1][2]["config"]["topic"] == "u"


def test_no_secret_is_printed(two: FakeLeader, tmp_path: Path, capsys: Captured) -> None:
    file = write(tmp_path / "a.json", {"name": "a", "config": {**CONFIG, "pin": "654321"}})
    assert cli.main(["connectors", "apply", "-f", file, "--dry-run"]) == 0
    assert cli.main(["connectors", "apply", "-f", file]) == 0
    told = capsys.readouterr()
    assert "pin" in told.out
    assert "654321" not in told.out + told.err
    assert two.asked[-1][2]["config"]["pin"] == "654321"


def test_editing(two: FakeLeader, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "sed -i 's/topic: t/topic: u/'")
    assert cli.main(["connectors", "edit", "b c"]) == 0
    assert "~ topic = t -> u" in capsys.readouterr().out
    assert two.asked[-1][2]["config"] == {**CONFIG, "name": "b c", "topic": "u", "pin": "123456"}
    written = len(two.config.records)
    monkeypatch.setenv("EDITOR", "true")
    assert cli.main(["connectors", "edit", "b c"]) == 0
    monkeypatch.setenv("EDITOR", "false")
    assert cli.main(["connectors", "edit", "b c"]) == Exit.LOCAL
    monkeypatch.setenv("EDITOR", "sed -i '/topic/d'")
    assert cli.main(["connectors", "edit", "b c"]) == Exit.INVALID
    said = capsys.readouterr().err
    kept = Path(said.strip().rpartition(" ")[2])
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.unlink()
    assert len(two.config.records) == written


def test_a_change_in_between_is_not_overwritten(
    two: FakeLeader, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write(tmp_path / "other.json", {"name": "a", "config": {**CONFIG, "topic": "theirs", "pin": "[hidden]"}})

    def editor(command: list[str], check: bool) -> None:
        Path(command[-1]).write_text(Path(command[-1]).read_text().replace("topic: t", "topic: mine"))
        assert cli.main(["connectors", "apply", "-f", other]) == 0

    monkeypatch.setenv("EDITOR", "ours")
    monkeypatch.setattr(subprocess, "run", editor)
    assert cli.main(["connectors", "edit", "a"]) == Exit.CONFLICT
    said = capsys.readouterr().err
    assert "changed in between" in said
    Path(said.strip().rpartition(" ")[2]).unlink()
    assert two.asked[-1][2]["config"]["topic"] == "theirs"


def test_offsets(two: FakeLeader, tmp_path: Path, capsys: Captured) -> None:
    two.offsets.offset("a", {"id": 0}, {"seqno": 5})
    two.project()
    assert cli.main(["offsets", "get", "a", "-o", "json"]) == 0
    saved = capsys.readouterr().out
    assert cli.main(["offsets", "set", "a", "-f", write(tmp_path / "o.json", saved)]) == Exit.INVALID
    assert "must be in the STOPPED state" in capsys.readouterr().err
    assert cli.main(["connectors", "stop", "a"]) == 0
    two.start("a", tasks=0, state=State.STOPPED)
    assert cli.main(["offsets", "set", "a", "-f", write(tmp_path / "o.json", saved)]) == 0
    assert two.asked[-1][2] == {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": 5}}]}
    assert cli.main(["offsets", "set", "a", "--partition", '{"id": 0}', "--offset", "null"]) == 0
    assert two.asked[-1][2] == {"offsets": [{"partition": {"id": 0}, "offset": None}]}
    assert cli.main(["offsets", "set", "a", "--partition", '{"id": 0}']) == Exit.USAGE, "it would delete it"
    assert cli.main(["offsets", "reset", "a"]) == Exit.USAGE, "nobody is there to ask"
    assert cli.main(["offsets", "reset", "a", "--yes"]) == 0
    assert two.asked[-1][0] == "reset_offsets"


def test_waiting_ends_with_the_state_or_says_what_is_missing(two: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["connectors", "resume", "a", "--wait"]) == 0
    assert "a: RUNNING, tasks: 2 RUNNING" in capsys.readouterr().err
    assert cli.main(["connectors", "pause", "a", "--wait", "--wait-seconds", "0"]) == Exit.WAITED
    assert "is not PAUSED" in capsys.readouterr().err
    two.start("a", tasks=2, state=State.PAUSED)
    assert cli.main(["connectors", "pause", "a", "--wait"]) == 0
    assert cli.main(["connectors", "delete", "a", "--yes", "--wait"]) == 0


def test_exit_codes_tell_what_happened(two: FakeLeader, tmp_path: Path, capsys: Captured) -> None:
    bad = write(tmp_path / "bad.json", {"name": "c", "config": {"connector.class": "VerifiableSource"}})
    again = write(tmp_path / "a.json", {"name": "a", "config": CONFIG})
    assert cli.main(["connectors", "get", "missing"]) == Exit.NOT_FOUND
    assert cli.main(["connectors", "create", "-f", bad]) == Exit.INVALID
    assert cli.main(["connectors", "create", "-f", bad, "--dry-run"]) == Exit.INVALID
    assert "topic: Missing required" in capsys.readouterr().err
    assert cli.main(["connectors", "create", "-f", again]) == Exit.CONFLICT
    assert cli.main(["connectors", "create", "-f", again, "--dry-run"]) == Exit.CONFLICT
    assert cli.main(["connectors", "create", "-f", str(tmp_path / "none")]) == Exit.LOCAL
    two.refusal = Refusal(500, "Request timed out. It waited.")
    assert cli.main(["connectors", "pause", "a"]) == Exit.UNKNOWN
    assert "Request timed out. It waited." in capsys.readouterr().err


def test_contexts_carry_url_and_token_to_their_own_server_only(
    two: FakeLeader, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    from django.test import override_settings

    monkeypatch.setattr("sys.stdin", io.StringIO("master\n"))
    assert cli.main(["contexts", "set", "prod", "--url", "http://prod.example", "--token-stdin"]) == 0
    assert rest.path().stat().st_mode & 0o777 == 0o600
    assert rest.server(None, None) == rest.Server("http://prod.example", "master")
    assert "master" not in repr(rest.server(None, None))
    assert rest.server("http://other.example", None).token == ""
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="master", ALLOWED_HOSTS=["*"]):
        assert cli.main(["connectors", "list"]) == 0
        assert cli.main(["connectors", "list", "--url", "http://other.example"]) == Exit.NOT_ALLOWED
        monkeypatch.setenv("RINGFENCE_TOKEN", "wrong")
        assert cli.main(["connectors", "list"]) == Exit.NOT_ALLOWED
    capsys.readouterr()
    assert cli.main(["contexts", "list"]) == 0
    listed = capsys.readouterr().out
    assert "prod.example" in listed
    assert "master" not in listed
    assert cli.main(["contexts", "delete", "prod"]) == 0
    assert cli.main(["contexts", "use", "prod"]) == Exit.USAGE
    monkeypatch.setenv("RINGFENCE_URL", "http://env.example/")
    assert rest.server(None, None) == rest.Server("http://env.example", "wrong")


def test_a_server_that_is_away(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.client import arguments
    from ringfence.client.rest import Rest

    monkeypatch.setattr(arguments, "Rest", Rest)
    assert cli.main(["connectors", "list", "--url", "http://127.0.0.1:1"]) == Exit.NOT_REACHED
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "suffix"),
    [("[1]", ".yaml"), ("topic: t", ".yaml"), ("a: [", ".yaml"), ("{", ".json"), ("x", ".properties"), ("", ".yaml")],
)
def test_files_that_hold_no_connector_are_explained(text: str, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(ClientError) as caught:
        documents.read(write(tmp_path / f"x{suffix}", text))
    assert caught.value.code == Exit.INVALID


def test_any_name_is_one_segment_of_the_path() -> None:
    assert segment("a/b %é") == "a%2Fb%20%25%C3%A9"


def test_values_keep_their_text_and_forms_round_trip(tmp_path: Path) -> None:
    flat = "name: c\nport: 08083\nflag: no\nratio: 1.50\n---\nname: d\n"
    first, second = documents.read(write(tmp_path / "x.yaml", flat))
    assert first.config == {"name": "c", "port": "08083", "flag": "no", "ratio": "1.50"}
    assert second.name == "d"
    for form in ("json", "yaml", "properties"):
        path = write(tmp_path / f"y.{form}", documents.write(first.config, form))
        assert documents.read(path) == [first]
    numbers = documents.read(write(tmp_path / "z.json", '{"name": "z", "config": {"a": 1.50, "b": true}}'))
    assert numbers[0].config == {"name": "z", "a": "1.50", "b": "true"}


def test_completion_follows_the_commands(capsys: Captured) -> None:
    assert "connectors" in following([""])
    assert following(["conn"]) == ["connectors"]
    assert {"list", "apply"} <= set(following(["connectors", ""]))
    assert "--dry-run" in following(["connectors", "apply", "--d"])
    for shell, script in SCRIPTS.items():
        assert cli.main(["completion", shell]) == 0
        assert capsys.readouterr().out == script
    assert subprocess.run(["bash", "-n"], input=SCRIPTS["bash"], text=True).returncode == 0


def test_it_starts_without_django_and_kafka() -> None:
    code = (
        "import sys; from ringfence import cli; cli.parser_for(['connectors', 'list']); "
        "import ringfence.client.rest, httpx; "
        "print([m for m in ('django', 'celery', 'confluent_kafka', 'kafka', 'pyspark', 'yaml') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
