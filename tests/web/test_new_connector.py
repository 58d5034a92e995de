"""A new connector: its form is made of the plugin's definition, nothing typed is lost, and no secret is sent back."""

import html
import json
import re
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client, override_settings

from ringfence.audit.models import AuditEntry
from ringfence.engine.leader.commands import Delete
from ringfence.http.errors import ConnectError
from ringfence.projection.models import Connector, SourceOffset
from ringfence.web.new.form_state import draft_of, read_pasted
from tests.support.accounts import account, bearer
from tests.support.leader import FakeLeader
from tests.support.new_connector_forms import FRAGMENT, RICH, posted_by
from tests.support.pages import squeeze
from tests.support.topics import connector


def text(response: Any) -> str:
    return html.unescape(squeeze(response.content.decode()))


def test_the_catalog_is_searched_and_tells_what_a_plugin_is(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [
        {"class": f"org.{name}", "type": "source", "version": "1", "names": [name], "documentation": words}
        for name, words in (("Lines", "Reads a file."), ("Rows", "Reads <tables>."))
    ]
    known[0]["versions"] = ["1", "0.9", "<0.8>"]
    monkeypatch.setattr(leader, "list_plugins", lambda: known)
    page = text(client.get("/ui/new"))
    assert "Reads a file." in page
    assert "Reads <tables>." in page
    assert page.count("Also installed:") == 1
    assert "Also installed: 0.9, <0.8>. Choose one with" in page
    part = client.get("/ui/new?q=reads+FILE", headers=FRAGMENT)
    assert b"<html" not in part.content
    assert "org.Lines" in text(part)
    assert "org.Rows" not in text(part)
    assert "Nothing matches" in text(client.get("/ui/new?q=nowhere"))
    assert "pin" in text(client.get("/ui/new/docs?class=VerifiableSource", headers=FRAGMENT))
    assert client.get("/ui/new/docs?class=Nope").status_code == 404


def test_the_form_follows_groups_order_importance_width_and_recommendations(client: Client, rich: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=Rich&all=1"))
    in_order = ("database", "transforms", "value.converter", "topic", "tasks.max", "poll.ms", "errors.tolerance")
    places = [page.index(f'name="setting:{name}"') for name in in_order]
    assert places == sorted(places), "along a record's way"
    cards = [page.index(f'id="card-{key}"') for key in ("source", "transforms", "converter", "topic")]
    assert all(card < place for card, place in zip(cards, places, strict=False))
    assert places[4] < page.index('<details id="all-settings"') < places[5]
    assert page.index("<h3>Source</h3>") < page.index('name="setting:database"')
    assert re.search(r"All other settings \(\d\d\)", page)
    assert '<div class="field w-short" data-default="5" id="field-poll-ms">' in page
    assert re.search(r'<select id="in-value-converter"[^>]*>.*JsonConverter', page)
    assert '<div class="field w-none" id="field-table" hidden>' in page  # without a database it does not matter
    assert 'class="field-error"' not in page  # nobody has typed yet
    assert 'aria-describedby="err-topic help-topic"' in page


def test_what_a_connector_offers_is_there_to_tick(client: Client, rich: FakeLeader) -> None:
    sent = {**RICH, "class": "Choosing", "setting:tables": "x.y, c.d"}
    raw = client.post("/ui/new/as?mode=form", sent).content.decode()
    assert "Choose from 2" in raw
    assert "3 rows &lt;b&gt;" in raw
    boxes = dict(re.findall(r'<input\s+type="checkbox"\s+value="([^"]+)"\s+data-choice="in-tables"\s*(checked)?', raw))
    assert boxes == {"a.b": "", "c.d": "checked"}
    config = {"connector.class": "Choosing", "name": "c"}
    answer = client.put("/connector-plugins/Choosing/config/validate", config, content_type="application/json").json()
    assert set(answer) == {"name", "error_count", "groups", "configs"}  # as Kafka Connect has it
    (tables,) = [entry["value"] for entry in answer["configs"] if entry["value"]["name"] == "tables"]
    assert tables["recommended_values"] == ["a.b", "c.d"]


def test_typing_shows_the_fields_errors_and_renders_what_depends_on_it(client: Client, rich: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=Rich&all=1"))
    sent = posted_by(page, **{"poll.ms": "soon"})
    answer = client.post("/ui/new/field?key=poll.ms", sent, headers=FRAGMENT)
    assert "hx-retarget" not in answer
    assert "Not a number of type INT" in text(answer).partition("hx-swap-oob")[0]
    assert "Missing" not in text(answer)  # of the topic, where nobody has been yet
    answer = client.post("/ui/new/field?key=database", {**sent, "setting:database": "d"}, headers=FRAGMENT)
    assert answer["hx-retarget"] == "#as-form"  # a field came: the table
    sent = posted_by(text(answer), **{"poll.ms": "soon", "database": "e"})
    answer = client.post("/ui/new/field?key=database", sent, headers=FRAGMENT)
    assert "hx-retarget" not in answer
    assert re.search(
        r'id="field-table" hx-swap-oob="true".*<option>e\.a</option><option>e\.b</option>', text(answer), re.DOTALL
    )
    assert 'id="err-poll-ms" hx-swap-oob="innerHTML"' in text(answer)


def test_the_form_says_what_these_settings_guarantee(client: Client, rich: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=Keyed"))
    assert re.search(r'id="guarantee".*Exactly once within a window.*At best: it depends on the settings', page), page
    sent = posted_by(page, topic="t")
    answer = text(client.post("/ui/new/field?key=topic", sent, headers=FRAGMENT))
    assert re.search(r'id="guarantee"[^>]*hx-swap-oob="innerHTML".*At least once.*Set key\.', answer), answer
    answer = text(client.post("/ui/new/field?key=key", {**sent, "setting:key": "k"}, headers=FRAGMENT))
    assert "Exactly once within a window" in answer
    assert "Set key." not in answer
    assert "No guarantee declared" in text(client.get("/ui/new?class=Rich"))


def test_a_transform_that_is_named_brings_its_settings(client: Client, rich: FakeLeader) -> None:
    sent = posted_by(text(client.get("/ui/new?class=Rich")), topic="t", transforms="r")
    answer = client.post("/ui/new/field?key=transforms", sent, headers=FRAGMENT)
    assert answer["hx-retarget"] == "#as-form"
    assert text(answer).index('name="setting:transforms.r.type"') < text(answer).index('id="card-converter"')
    sent = posted_by(text(answer), **{"transforms.r.type": "RegexRouter"})
    answer = client.post("/ui/new/field?key=transforms.r.type", sent, headers=FRAGMENT)
    assert 'name="setting:transforms.r.regex"' in text(answer)
    assert "<option selected>RegexRouter</option>" in text(answer)


PASTED = {
    "name": "lines",
    "config": {
        "connector.class": "Rich",
        "topic": "t",
        "password": "hunter2",
        "my.own": "kept to the letter ",
        "empty.one": "",
        "long": "a\nb",
        "poll.ms": 7,
        "offsets.token": "tok-4711",
    },
}


def test_pasted_text_becomes_a_form_and_back_without_a_loss_and_without_a_secret(
    client: Client, rich: FakeLeader
) -> None:
    pasted = json.dumps(PASTED)
    answer = client.post(
        "/ui/new/as?mode=form", {"mode": "json", "json": pasted, "name": "", "of": ""}, headers=FRAGMENT
    )
    page = text(answer)
    assert json.loads(answer["hx-trigger-after-swap"]) == {"ringfence-mode": "form"}
    assert 'Understood as JSON with "name" and "config", for connector <b>lines</b>: 8 settings, 4 of which' in page
    assert "hunter2" not in page
    assert "tok-4711" not in page
    assert page.index("Other properties") < page.index('name="setting:my.own"')
    # the browser still holds the text: from there come the secrets that were left alone
    fields = {**posted_by(page), "json": pasted, "mode": "form", "state": "PAUSED"}
    made = client.post("/ui/new", fields, headers=FRAGMENT)
    assert (made.status_code, made["hx-redirect"]) == (204, "/ui/connectors/lines")
    assert rich.asked[-1][2]["config"] == {**PASTED["config"], "poll.ms": "7", "name": "lines"}  # type: ignore[dict-item]
    as_json = client.post("/ui/new/as?mode=json", {**fields, "setting:password": "typed-9"}, headers=FRAGMENT)
    shown = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", text(as_json), re.DOTALL)
    assert shown is not None
    again = json.loads(shown[1])
    assert again["config"] == {**PASTED["config"], "poll.ms": "7", "password": "[hidden]", "offsets.token": "[hidden]"}  # type: ignore[dict-item]
    again["config"]["offsets.token"] = "tok-4712"
    sent = {**fields, "mode": "json", "json": json.dumps(again), "name": "two", "setting:password": "typed-9"}
    client.post("/ui/new", {**sent, "json": json.dumps({**again, "name": "two"})}, headers=FRAGMENT)
    assert rich.asked[-1][2]["config"]["password"] == "typed-9"
    assert rich.asked[-1][2]["config"]["offsets.token"] == "tok-4712"


def test_a_secret_can_be_kept_replaced_and_removed() -> None:
    def config(**more: str) -> dict[str, str]:
        query = QueryDict(mutable=True)
        query.update({"class": "Rich", "name": "c", "keep:setting:password": "1", "setting:password": "", **more})
        return draft_of(query).config

    assert config()["password"] == "[hidden]"
    assert config(**{"setting:password": "new"})["password"] == "new"
    assert "password" not in config(**{"drop:setting:password": "1"})
    assert config(json='{"password": "from the text"}')["password"] == "from the text"
    with pytest.raises(ConnectError, match="topic is set twice"):
        config(**{"setting:topic": "t", "extra-key": "topic", "extra-value": "u"})


@pytest.mark.parametrize(
    ("pasted", "name", "understood"),
    [
        ('{"name": "n", "config": {"topic": "t"}}', "n", "and"),
        ('{"name": "n", "topic": "t"}', "n", "alone"),
        ("# a comment\nname=n\ntopic = t\n", "n", "properties"),
        ("name: n\nconfig:\n  topic: t\n", "n", "YAML"),
        ("""curl -X PUT http://h:8083/connectors/n/config -H 'A: b' -d '{"topic": "t"}'""", "n", "curl"),
        (
            """$ curl -sS -XPOST --data-raw='{"name": "n", "config": {"topic": "t"}}' \\\n  http://h/connectors""",
            "n",
            "curl",
        ),
        ("""curl --json '{"topic": "t"}' 'http://h/connectors/a%2Fb/config'""", "a/b", "curl"),
    ],
)
def test_what_is_pasted_is_recognised(pasted: str, name: str, understood: str) -> None:
    found = read_pasted(pasted)
    assert (found.name, found.config["topic"]) == (name, "t")
    assert understood in found.text_format


@pytest.mark.parametrize(
    ("pasted", "reason"),
    [
        ("", "Nothing was pasted"),
        ("curl http://h/connectors", "sends no body"),
        ("curl -d @file.json http://h/connectors", "Paste the file's content"),
        ("curl -d '{ http://h", "cannot be read"),
        ('[{"name": "a"}, {"name": "b"}]', "Paste one"),
        ('{"name": "a", "config": {"x": {}}}', "nested value"),
        ("{", "not valid JSON"),
        ("hello", "line 1 is not key=value"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(pasted: str, reason: str) -> None:
    with pytest.raises(ConnectError, match=reason):
        read_pasted(pasted)


def test_errors_lead_to_their_fields_and_come_to_their_slots(client: Client, rich: FakeLeader) -> None:
    sent = posted_by(
        text(client.get("/ui/new?class=Rich&name=c&all=1")), **{"poll.ms": "soon", "password": "hunter2", "topic": ""}
    )
    answer = client.post("/ui/new", sent, headers=FRAGMENT)
    page = text(answer)
    assert answer.status_code == 400
    assert "2 settings to correct" in page
    assert '<a href="#in-topic">Topic</a>: This setting is required: fill it in.' in page
    assert re.search(r'id="err-poll-ms" hx-swap-oob="innerHTML">.*Not a number', page, re.DOTALL)
    assert "hunter2" not in page
    assert rich.config.records == []
    sent["name"] = ""
    page = text(client.post("/ui/new", sent, headers=FRAGMENT))
    assert '<a href="#in-name">Name</a>: A connector needs a name.' in page
    assert re.search(r"3\s+settings to correct", page), "the name is one of them"
    whole = client.post("/ui/new", sent)  # without htmx the page comes again
    assert 'aria-invalid="true"' in text(whole)
    assert "hunter2" not in text(whole)


def test_a_copy_keeps_the_secrets_of_its_model(client: Client, rich: FakeLeader) -> None:
    model = connector("model", topic="t", password="hunter2", extra="x")
    model.config["connector.class"] = "Rich"  # type: ignore[index]
    rich.config.config(model, connector("model-copy"))
    rich.project()
    page = text(client.get("/ui/new?from=model"))
    assert 'name="name" value="model-copy-2"' in page
    assert "hunter2" not in page
    sent = posted_by(page, topic="u")
    review = text(client.post("/ui/new/review", sent, headers=FRAGMENT))
    assert "Compared with model, the original (2)" in review
    assert client.post("/ui/new", sent, headers=FRAGMENT).status_code == 204
    config = rich.asked[-1][2]["config"]
    assert (config["password"], config["topic"], config["extra"]) == ("hunter2", "u", "x")
    assert client.get("/ui/new?from=nobody").status_code == 404


def test_offsets_under_the_name_are_told_and_can_be_deleted_first(client: Client, rich: FakeLeader) -> None:
    SourceOffset.objects.create(connector="c", partition='{"file":"/a"}', offset='{"position":7}')
    sent = {**RICH, "setting:topic": "t", "state": "RUNNING"}
    told = text(client.post("/ui/new/field?key=name", sent, headers=FRAGMENT))
    assert "Source offsets exist for this name" in told
    assert '{"file":"/a"} → {"position":7}' in told
    client.post("/ui/new", sent, headers=FRAGMENT)
    assert [kind for kind, _, _ in rich.asked] == ["create"]
    assert "A connector of this name exists" in text(client.post("/ui/new/field?key=name", sent, headers=FRAGMENT))
    rich.command(Delete("c"))
    rich.asked.clear()
    review = text(client.post("/ui/new/review", {**sent, "begin": "fresh"}, headers=FRAGMENT))
    assert "1 source offset under this name will be deleted" in review
    Connector.objects.all().delete()
    rich.config.records.clear()
    client.post("/ui/new", {**sent, "begin": "fresh"}, headers=FRAGMENT)
    assert [kind for kind, _, _ in rich.asked] == ["create", "reset_offsets", "resume"]
    assert rich.asked[0][2]["initial_state"] == "STOPPED"


def test_the_review_shows_what_differs_and_how_to_do_the_same_elsewhere(client: Client, rich: FakeLeader) -> None:
    sent = {**RICH, "name": "it's", "setting:topic": "a'b", "setting:password": "hunter2", "setting:poll.ms": "5"}
    page = text(client.post("/ui/new/review", {**sent, "setting:odd": "x", "state": "STOPPED"}, headers=FRAGMENT))
    assert "hunter2" not in page
    assert "as the default" in page
    assert '<code>odd</code> <span class="tag">other</span>' in page
    copies = dict(re.findall(r'id="text-(\w+)" tabindex="0">(.*?)</pre>', page, re.DOTALL))
    found = read_pasted(copies["rest"])
    assert (found.name, found.config["topic"], found.config["password"]) == ("it's", "a'b", "[hidden]")
    assert '"initial_state": "STOPPED"' in copies["rest"]
    assert copies["cli"].startswith("ringfence connectors create --state stopped -f - <<'END_OF_CONNECTOR'\n")
    assert read_pasted(copies["yaml"]).config == found.config | {"name": "it's"}


def test_a_preview_and_a_trial_stand_below_the_form(client: Client, rich: FakeLeader) -> None:
    sent = {**RICH, "setting:topic": "t", "setting:password": "hunter2"}
    page = text(client.post("/ui/new/preview", sent, headers=FRAGMENT))
    assert "1 record in 12 ms, all that exist now; nothing written, nothing committed." in page
    assert '{"position": 7}' in page
    assert "<code>routed</code>" in page
    sample = re.search(r'data-sample="(\{.*?\})"', page, re.DOTALL)
    assert sample is not None
    tried = text(client.post("/ui/new/trial", {**sent, "sample": sample[1]}, headers=FRAGMENT))
    assert rich.asked[-1][2]["record"]["topic"] == "t"
    assert "RegexRouter" in tried
    assert "not valid JSON" in text(client.post("/ui/new/trial", {**sent, "sample": "{"}, headers=FRAGMENT))
    rich.busy = "c"
    assert "Connector c runs, or may start" in text(client.post("/ui/new/preview", sent, headers=FRAGMENT))


def test_without_a_worker_what_was_typed_is_still_there(client: Client, leader: FakeLeader) -> None:
    leader.plugins_away = True
    sent = {"mode": "json", "json": '{"name": "c", "connector.class": "VerifiableSource", "topic": "t", "odd": "x"}'}
    page = text(client.post("/ui/new/as?mode=form", sent, headers=FRAGMENT))
    assert "settings are not available now" in page
    sent = posted_by(page)
    # Nobody can say whether the other one is a secret: it is kept, and not shown.
    assert (sent["setting:topic"], sent["setting:odd"], sent["keep:setting:odd"]) == ("t", "", "1")


def test_an_edit_is_reviewed_against_what_is_stored(client: Client, rich: FakeLeader) -> None:
    model = connector("model", topic="t", password="hunter2", extra="x")
    model.config["connector.class"] = "Rich"  # type: ignore[index]
    rich.config.config(model)
    rich.project()
    page = text(client.get("/ui/connectors/model/edit?mode=form"))
    assert "hunter2" not in page
    assert page.index('name="setting:topic"') < page.index('id="all-settings"') < page.index('name="setting:extra"')
    sent = {**posted_by(page, topic="u"), "editing": "1", "name": "model"}
    review = text(client.post("/ui/new/review", sent, headers=FRAGMENT))
    assert re.findall(r"<code>([^<]*)</code>", review)[:3] == ["topic", "t", "u"]
    assert "A connector of this name exists" not in review
    assert "curl -X PUT http://localhost/connectors/model/config" in review
    assert "ringfence connectors apply -f -" in review
    same = text(client.post("/ui/new/review", {**sent, "setting:topic": "t"}, headers=FRAGMENT))
    assert "The configuration is the same as the stored one" in same
    answer = client.post("/ui/new/as?mode=json", sent, headers=FRAGMENT)
    assert '"password": "[hidden]"' in text(answer)
    version = re.search(r'name="version"[^>]* value="(\d+)"', page)
    assert version is not None
    wrong = {**sent, "version": version[1], "setting:poll.ms": "soon", "setting:password": "typed-9"}
    refused = client.post("/ui/connectors/model/edit", wrong, headers=FRAGMENT)
    assert (refused.status_code, refused["hx-retarget"]) == (400, "#outcome")  # the form stays as it is
    assert '<a href="#in-poll-ms">Poll ms</a>: Invalid value soon' in text(refused)
    assert "typed-9" not in text(refused)


def test_every_part_of_the_form_needs_edit_on_that_name_and_on_whose_secrets_it_takes(
    client: Client, rich: FakeLeader
) -> None:
    model = connector("other", topic="t", password="hunter2")
    model.config["connector.class"] = "Rich"  # type: ignore[index]
    rich.config.config(model)
    rich.project()
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="master", ALLOWED_HOSTS=["*"]):
        ann = bearer(account("ann", ("editor", "team-*"), ("viewer", "*")))
        mine = {**RICH, "name": "team-a", "setting:topic": "t", "sample": '{"topic": "t"}'}
        somebody_elses = {**mine, "name": "other"}
        taken = {**mine, "keep:setting:password": "1", "setting:password": "", "of": "other"}
        for path in ("", "/preflight", "/preview", "/trial", "/review"):
            for sent in (somebody_elses, taken):
                refused = client.post(f"/ui/new{path}", sent, headers=ann)
                assert (refused.status_code, "verb `edit` on connector other" in text(refused)) == (403, True), path
        assert rich.asked == []
        copy = text(client.get("/ui/new?from=other", headers=ann))
        assert "These secrets are not copied" in copy
        assert 'name="of" value=""' in copy
        nobody = bearer(account("bob", ("editor", "team-*")))
        assert client.get("/ui/new?from=other", headers=nobody).status_code == 403
        told = text(client.post("/ui/new/field?key=name", somebody_elses, headers=nobody))
        assert "exists" not in told  # which names there are is told to those only who may see them


def test_many_advanced_settings_come_when_they_are_opened_or_needed(client: Client, rich: FakeLeader) -> None:
    first = text(client.get("/ui/new?class=Rich"))
    sent = posted_by(first, topic="t")
    assert sent["later"] == "1"
    assert 'name="setting:errors.tolerance"' not in first
    assert 'name="setting:errors.tolerance"' in text(client.get("/ui/new?class=Rich&all=1"))
    answer = client.post("/ui/new/field?key=topic", sent, headers=FRAGMENT)
    assert "hx-retarget" not in answer, "what the page does not have is not a change of its fields"
    assert "errors-tolerance" not in text(answer)
    drawer = text(client.post("/ui/new/field?drawer=1", sent, headers=FRAGMENT))
    assert 'name="setting:errors.tolerance"' in drawer
    assert 'name="later"' not in drawer
    prefilled = text(client.get("/ui/new?class=Rich&setting:errors.tolerance=all"))
    assert 'name="setting:errors.tolerance"' in prefilled, "one that is set is shown"
    wrong = {**sent, "name": "c", "extra-key": "errors.tolerance", "extra-value": "some"}
    refused = text(client.post("/ui/new", wrong, headers=FRAGMENT))
    assert re.search(r'id="later" hx-swap-oob="outerHTML".*name="setting:errors.tolerance"', refused, re.DOTALL)


def test_a_form_begins_with_names_for_the_connector_and_its_topic(client: Client, rich: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=Reaching"))
    assert 'name="name" value="reaching"' in page
    assert posted_by(page)["setting:topic.prefix"] == "reaching."
    SourceOffset.objects.create(connector="reaching", partition="{}", offset="{}")
    assert 'name="name" value="reaching-2"' in text(client.get("/ui/new?class=Reaching"))
    assert 'name="name" value="mine"' in text(client.get("/ui/new?class=Reaching&name=mine"))
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="master", ALLOWED_HOSTS=["*"]):
        ann = bearer(account("ann", ("editor", "team-*")))
        assert 'name="name" value=""' in text(client.get("/ui/new?class=Reaching", headers=ann))


def test_a_test_says_why_there_is_no_connection_and_asks_for_no_tables_before(client: Client, rich: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=Reaching"))
    assert re.search(r'<details id="selection" class="selection"\s*>', page), "closed"
    sent = posted_by(page, **{"database.dbname": "/data/Shop Orders.db", "database.password": "wrong"})
    refused = client.post("/ui/new/test", sent, headers=FRAGMENT)
    assert "hx-trigger-after-settle" not in refused
    assert "Not connected" in text(refused)
    slot = r'id="err-database-password"[^>]*>\s*<span class="field-error">.*The server refuses the login'
    assert re.search(slot, text(refused), re.DOTALL)
    assert re.search(r'<details id="selection" class="selection"\s*>', text(refused))
    assert posted_by(text(refused))["setting:mode"] == ""
    assert AuditEntry.objects.get(action="test connection").connector == "reaching"


def test_a_source_that_answers_proposes_what_is_not_set(client: Client, rich: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=Reaching"))
    typed = {"database.dbname": "/data/Shop Orders.db", "database.password": "right"}
    answer = client.post("/ui/new/test", posted_by(page, **typed), headers=FRAGMENT)
    assert answer["hx-trigger-after-settle"] == "ringfence-tested"
    assert "2 tables." in text(answer)
    assert re.search(r'<details id="selection" class="selection" open\s*>', text(answer))
    sent = posted_by(text(answer), **{"database.password": "right"})
    assert sent["setting:mode"] == "exact"
    assert sent["setting:database.dbname"] == "/data/Shop Orders.db", "what was typed stays"
    assert (sent["name"], sent["setting:topic.prefix"]) == ("shop-orders", "shop-orders.")
    field = client.post("/ui/new/field?key=mode", {**sent, "setting:mode": "other"}, headers=FRAGMENT)
    assert "hx-retarget" not in field
    named = {**sent, "name": "mine", "setting:topic.prefix": "own"}
    again = posted_by(text(client.post("/ui/new/test", named, headers=FRAGMENT)))
    assert (again["name"], again["setting:topic.prefix"]) == ("mine", "own"), "names that somebody typed stay"
    whole = client.post("/ui/new", {**sent, "test": "1"})  # without JavaScript the page comes again
    assert "2 tables." in text(whole)
    assert b"<html" in whole.content
    assert [kind for kind, _, _ in rich.asked] == ["examine"] * 3, "nothing was created"


def test_a_webhook_that_is_tested_shows_the_address_for_its_senders(client: Client, rich: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=WebhookSource"))
    sent = posted_by(page, name="team/sign ups")
    refused = text(client.post("/ui/new/test", sent, headers=FRAGMENT))
    assert "/hooks/" not in refused
    answer = text(client.post("/ui/new/test", {**sent, "setting:signature": "none"}, headers=FRAGMENT))
    assert '<code id="hook-url">http://localhost/hooks/team%2Fsign%20ups</code>' in answer
    assert "anybody who reaches this platform may send" in answer
    other = posted_by(text(client.get("/ui/new?class=Reaching")), **{"database.password": "right"})
    assert "/hooks/" not in text(client.post("/ui/new/test", other, headers=FRAGMENT))


def test_a_test_needs_edit_on_the_name(client: Client, rich: FakeLeader) -> None:
    sent = posted_by(text(client.get("/ui/new?class=Reaching")), name="other")
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="master", ALLOWED_HOSTS=["*"]):
        ann = bearer(account("ann", ("editor", "team-*")))
        assert client.post("/ui/new/test", sent, headers=ann).status_code == 403
    assert rich.asked == []


def test_settings_without_a_label_are_named_in_words(client: Client, rich: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=Reaching&all=1"))
    assert re.search(r'<label for="in-replace-null-with-default">Replace null with default\s*<code', page)
    assert not re.search(r"<label[^>]*>[a-z]+\.[a-z.]+\s*<", page), "no label is a setting's name"
