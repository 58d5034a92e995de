"""`ringfence dead-letters`: what is listed, what is asked for, and an exit code that says whether all went well."""

import json

import pytest

from ringfence import cli
from ringfence.client.output import Exit
from tests.support.client_runs import Captured
from tests.support.leader import FakeLeader
from tests.support.topics import connector


@pytest.fixture
def kept(two: FakeLeader) -> FakeLeader:
    more = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    two.config.config(connector("a", topic="t", pin="123456", **more))
    two.project()
    return two


def test_letters_are_listed_and_the_next_page_is_named(kept: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["dead-letters", "list", "a", "--stage", "VALUE_CONVERTER", "--class", "ValueError"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["0-7", "no"], ["0-5", "yes"], ["0-3", "undecided"]]
    assert lines[-1] == "Older ones: --before 0:3"
    assert "123456" not in "".join(lines)
    assert kept.asked[-1][2]["by"] == "ValueError"
    assert cli.main(["dead-letters", "list", "a", "--before", "0:3", "-o", "json"]) == 0
    assert [row["offset"] for row in json.loads(capsys.readouterr().out)] == [7, 5, 3]
    assert kept.asked[-1][2]["before"] == [[0, 3]]


def test_a_replay_says_what_became_of_each(kept: FakeLeader, capsys: Captured) -> None:
    replay = ["dead-letters", "replay", "a"]
    assert cli.main([*replay, "0-7", "--yes", "--reason", "mended"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["0-7", "written", "t", "-"]
    assert kept.asked[-1][2]["chosen"] == {"places": [[0, 7]]}
    assert cli.main([*replay, "--all", "--stage", "KEY_CONVERTER", "--yes"]) == Exit.INVALID
    told = capsys.readouterr()
    assert "4 more match" in told.out
    assert "1 of 2 were not replayed" in told.err
    before = list(kept.asked)
    for wrong in ([], ["0-7"], ["0-7", "--all", "--yes"], ["7", "--yes"], ["0-7", "--class", "E", "--yes"]):
        assert cli.main([*replay, *wrong]) == Exit.USAGE
    assert kept.asked == before
