"""The form as a pipeline: transforms are chosen and ordered, a record shows what they do, no draft holds a secret."""

import html
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client, override_settings

from ringfence.connectors.transforms import find_transform
from ringfence.connectors.transforms.registry import TRANSFORMS
from ringfence.engine.questions import TryTransforms
from ringfence.http.errors import ConnectError
from ringfence.web.new.live_results import list_changes
from ringfence.web.new.transform_menu import describe_type, menu_items
from ringfence.web.new.transform_steps import change_steps
from tests.support.accounts import account, bearer
from tests.support.leader import FakeLeader
from tests.support.new_connector_forms import FRAGMENT, RICH, posted_by
from tests.support.pages import squeeze

MASK = "org.apache.kafka.connect.transforms.MaskField$Value"
TWO = {"transforms": "a, b", "transforms.a.type": MASK, "transforms.a.fields": "x", "transforms.b.type": "Filter"}


def text(response: Any) -> str:
    return html.unescape(squeeze(response.content.decode()))


def test_every_transform_is_in_the_menu_under_what_it_does() -> None:
    items = menu_items()
    types = [type_ for item in items for type_ in (item.type, item.of_key) if type_]
    assert sorted(find_transform("type", type_).name for type_ in types) == sorted(cls.name for cls in TRANSFORMS)
    assert len({item.title for item in items}) == len(items), "two could not be told apart"
    assert [item.of_key.endswith("MaskField$Key") for item in items if item.title == "Mask fields"] == [True]
    assert describe_type(MASK).title == "Mask fields"
    assert describe_type("MaskField$Value").half == "value"
    assert describe_type("com.example.Odd$Value").title == "Odd$Value"


def test_transforms_are_added_removed_and_moved_with_their_settings() -> None:
    added = change_steps(TWO, f"add:{MASK}")
    assert (added["transforms"], added["transforms.maskField.type"]) == ("a,b,maskField", MASK)
    assert change_steps(added, f"add:{MASK}")["transforms"] == "a,b,maskField,maskField2"
    left_over = {"transforms.maskField.fields": "of a transform that is not listed"}
    assert change_steps(left_over, f"add:{MASK}")["transforms"] == "maskField2"
    assert change_steps(TWO, "remove:a") == {"transforms": "b", "transforms.b.type": "Filter"}
    assert change_steps({"transforms": "a", "transforms.a.type": MASK, "k": "v"}, "remove:a") == {"k": "v"}
    assert change_steps(TWO, "up:b")["transforms"] == "b,a"
    assert change_steps(TWO, "up:a")["transforms"] == "a,b"
    assert change_steps(added, "move:0:maskField")["transforms"] == "maskField,a,b"
    assert change_steps(added, "move:99:a")["transforms"] == "b,maskField,a"
    for wrong in ("remove:c", "turn:a", "", "move:x:a"):
        with pytest.raises(ConnectError):
            change_steps(TWO, wrong)


@pytest.mark.parametrize("headers", [FRAGMENT, {}])
def test_a_button_changes_the_list_with_scripts_and_without(
    client: Client, rich: FakeLeader, headers: dict[str, str]
) -> None:
    sent = {**posted_by(text(client.get("/ui/new?class=Rich&name=c")), topic="t"), "step": f"add:{MASK}"}
    answer = client.post("/ui/new/steps" if headers else "/ui/new", sent, headers=headers)
    page = text(answer)
    assert ("<html" in page) == (not headers)
    assert 'name="setting:transforms.maskField.fields"' in page
    assert "Mask fields" in page
    assert 'value="t"' in page, "what was typed is still there"
    assert 'class="field-error"' not in page, "nobody has been at the new fields yet"
    assert rich.asked == []
    again = {**posted_by(page), "step": "remove:maskField"}
    again["setting:transforms"] = "maskField"
    gone = text(client.post("/ui/new/steps", again, headers=FRAGMENT))
    assert "maskField" not in gone


def test_an_error_is_counted_on_the_card_it_belongs_to(client: Client, rich: FakeLeader) -> None:
    sent = {**RICH, "setting:topic": "t", "setting:transforms": "m", "setting:transforms.m.type": MASK}
    sent["setting:transforms.m.fields"] = ""
    page = text(client.post("/ui/new", sent, headers=FRAGMENT))
    counts = dict(re.findall(r'id="count-(\w+)" hx-swap-oob="innerHTML">(.*?)</span>', page, re.DOTALL))
    assert "1 to correct" in counts["transforms"]
    assert "to correct" not in counts["source"] + counts["converter"] + counts["topic"]


def test_one_record_shows_what_each_transform_does_up_to_the_one_that_is_not_finished(
    client: Client, rich: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Mapping[str, str]] = []

    def part(value: str) -> dict[str, object]:
        return {"type": "object", "text": value, "cut": 0}

    def walk(question: TryTransforms) -> dict[str, object]:
        asked.append(question.config)
        before: dict[str, object] = {"topic": "t", "partition": None, "timestamp": None, "key": None, "headers": []}
        after = {**before, "value": part('{"x": ""}')}
        step = {"name": "a", "type": MASK, "outcome": "changed", "record": after, "error": ""}
        before["value"] = part('{"x": "<Ann>"}')
        return {"before": before, "steps": [step], "outcome": "written", "written": after, "error": ""}

    ask = rich.ask
    monkeypatch.setattr(
        "ringfence.dispatch.ask", lambda it, *more: walk(it) if isinstance(it, TryTransforms) else ask(it, *more)
    )
    settings = {**TWO, "transforms": "a,m,b", "transforms.m.type": MASK, "password": "hunter2", "odd": "kept?"}
    sent = {**RICH, **{f"setting:{key}": value for key, value in settings.items()}, "undeclared": "odd"}
    sent |= {"sample": '{"topic": "t", "value": {"x": "<Ann>"}}'}
    answer = client.post("/ui/new/beside", sent, headers=FRAGMENT)
    raw = squeeze(answer.content.decode())
    samples = dict(re.findall(r'<div id="sample-([^"]+)" hx-swap-oob="innerHTML">(.*?)(?=<div id=)', raw, re.DOTALL))
    assert asked[0]["transforms"] == "a", "the one without its settings would refuse the whole"
    assert "&lt;Ann&gt;" in samples["transforms-a"]
    assert "Fill in its settings" in samples["transforms-m"]
    assert "The record does not reach this transform: see Mask fields" in samples["transforms-b"]
    assert "hunter2" not in raw
    now = json.loads(html.unescape(re.search(r'<pre id="json-now">(.*?)</pre>', raw, re.DOTALL)[1]))  # type: ignore[index]
    assert now["config"]["password"] == "[hidden]"
    kept = json.loads(html.unescape(re.search(r'<pre id="draft-now">(.*?)</pre>', raw, re.DOTALL)[1]))  # type: ignore[index]
    assert kept["left_out"] == ["odd", "password"]
    assert "odd" not in kept["config"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "hunter2"),
        ("my.api.key", "hunter2"),
        ("database", "postgresql://ann:hunter2@db/shop"),
        ("database", "host=db;Password=hunter2"),
    ],
)
def test_a_browser_is_told_no_draft_with_a_secret(client: Client, rich: FakeLeader, key: str, value: str) -> None:
    page = text(client.post("/ui/new/beside", {**RICH, "setting:topic": "t", f"setting:{key}": value}))
    kept = json.loads(page.partition('id="draft-now">')[2].partition("</pre>")[0])
    assert "hunter2" not in json.dumps(kept)
    assert kept["config"]["topic"] == "t"
    assert kept["left_out"] == [key]


def test_the_sample_runs_for_those_only_who_may_edit_the_connector(client: Client, rich: FakeLeader) -> None:
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="master", ALLOWED_HOSTS=["*"]):
        ann = bearer(account("ann", ("editor", "team-*")))
        sent = {**RICH, "name": "other", "setting:topic": "t", "sample": '{"topic": "t", "value": 1}'}
        answer = client.post("/ui/new/beside", sent, headers=ann)
        assert "You need the edit permission on connector other" in text(answer)
        assert 'id="json-now"></pre>' in text(answer)
        viewer = bearer(account("vic", ("viewer", "*")))
        for path in ("/ui/new/beside", "/ui/new/steps"):
            assert client.post(path, sent, headers=viewer).status_code == 403


def test_what_differs_is_listed_by_part() -> None:
    def record(**more: object) -> dict[str, object]:
        return {"topic": "t", "key": None, "value": None, "headers": [], "timestamp": None, **more}

    assert list_changes(record(), record()) == []
    (changed,) = list_changes(record(headers=[["h", {"text": "1", "cut": 0}]]), record())
    assert (changed.part, changed.before, changed.after) == ("headers", "h: 1", "")


TOPICS = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"


def test_a_transform_is_limited_to_some_records_and_widened_again() -> None:
    limited = change_steps(TWO, f"only:{TOPICS}:a")
    assert limited == {
        **TWO,
        "predicates": "topicMatches",
        "predicates.topicMatches.type": TOPICS,
        "transforms.a.predicate": "topicMatches",
    }
    shared = change_steps({**limited, "transforms.a.negate": "true"}, "share:topicMatches:b")
    assert shared["transforms.b.predicate"] == "topicMatches"
    once = change_steps(shared, "widen:a")
    assert (once["predicates"], "transforms.a.predicate" in once, "transforms.a.negate" in once) == (
        "topicMatches", False, False,
    )  # fmt: skip
    assert change_steps(once, "widen:b") == TWO, "nobody has the predicate any more"
    assert change_steps(limited, "remove:a") == {"transforms": "b", "transforms.b.type": "Filter"}
    both = change_steps(limited, f"only:{TOPICS}:b")
    assert both["predicates"] == "topicMatches,topicMatches2"
    assert change_steps(both, "widen:a")["predicates"] == "topicMatches2", "the other one stays"
    for wrong in ("only:org.Evil:a", "share:nothing:a", f"only:{TOPICS}:nobody", "widen:nobody"):
        with pytest.raises(ConnectError):
            change_steps(TWO, wrong)


def test_a_predicate_stands_in_the_card_of_its_transform(client: Client, rich: FakeLeader) -> None:
    sent = {**RICH, "setting:topic": "t", "setting:transforms": "f", "setting:transforms.f.type": "Filter"}
    page = text(client.post("/ui/new/steps", {**sent, "step": f"only:{TOPICS}:f"}, headers=FRAGMENT))
    which = page[page.index('id="which-transforms-f"') : page.index('id="more-transforms-f"')]
    assert "Only topics that match a pattern" in which
    assert 'name="setting:predicates.topicMatches.pattern"' in which
    assert 'name="setting:transforms.f.negate"' in which
    assert '<option value="topicMatches"' in which or "<option selected>topicMatches</option>" in which
    assert page.count('name="setting:predicates.topicMatches.pattern"') == 1
    wide = text(client.post("/ui/new/steps", {**posted_by(page), **sent, "step": "widen:f"}, headers=FRAGMENT))
    assert "predicates.topicMatches" not in wide
    assert f'value="only:{TOPICS}:f"' in wide


@pytest.fixture
def tried(rich: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """The configurations whose transforms a worker was asked to try."""
    configs: list[Mapping[str, str]] = []
    ask = rich.ask

    def note(question: Any, *more: Any) -> Any:
        if isinstance(question, TryTransforms):
            configs.append(question.config)
        return ask(question, *more)

    monkeypatch.setattr("ringfence.dispatch.ask", note)
    return configs


def test_a_java_transform_is_for_the_worker_to_judge(client: Client, tried: list[Mapping[str, str]]) -> None:
    settings = {**TWO, "transforms": "u,a", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState"}
    sent = {**RICH, **{f"setting:{key}": value for key, value in settings.items()}, "sample": '{"topic": "t"}'}
    client.post("/ui/new/beside", sent, headers=FRAGMENT)
    assert tried[0]["transforms"] == "u,a"


def test_the_sample_waits_for_a_predicate_that_is_not_finished(client: Client, tried: list[Mapping[str, str]]) -> None:
    settings = {
        **TWO, "predicates": "p,q", "predicates.p.type": "HasHeaderKey", "predicates.p.name": "h",
        "predicates.q.type": TOPICS, "transforms.a.predicate": "p", "transforms.b.predicate": "q",
    }  # fmt: skip
    sent = {**RICH, **{f"setting:{key}": value for key, value in settings.items()}, "sample": '{"topic": "t"}'}
    page = text(client.post("/ui/new/beside", sent, headers=FRAGMENT))
    assert (tried[0]["transforms"], tried[0]["predicates"]) == ("a", "p")
    assert "Fill in its settings" in page
