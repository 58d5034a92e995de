"""Previews and trials in the plugin process: bounded, without a commit, without a secret."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ringfence.connectors.config_providers import PROVIDERS
from ringfence.engine.plugins import BadRequest, PluginError, PluginHost, PluginTimeout
from ringfence.engine.plugins.calls import PreviewRecords, TryChain, ValidateConfig, pairs_of
from ringfence.engine.plugins.errors import PluginStarting
from tests.support.plugin_hosts import PATIENCE, hostile
from tests.support.preview_bounds import BOUNDS
from tests.support.waiting import eventually

Config = dict[str, str]
SECRET = 'sesame "open" 4711'


def previewed(
    host: PluginHost, config: dict[str, str], *, offsets: Any = (), timeout: float = 20, **bounds: float
) -> Any:
    return host.ask(PreviewRecords(config, pairs_of(offsets), {}, [], {**BOUNDS, **bounds}), timeout)


@pytest.fixture
def provided(environment: dict[str, str], tmp_path: Path) -> Iterator[PluginHost]:
    """A host whose worker has a config provider, which knows SECRET."""
    (tmp_path / "secrets").write_text(f"key={SECRET}\nshort=abc\n")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
    }
    host = PluginHost(environment={**environment, PROVIDERS: json.dumps(providers)}, call_seconds=PATIENCE)
    yield host
    host.close()


def test_a_preview_shows_records_as_the_converters_write_them_with_their_offsets(host: PluginHost) -> None:
    offsets = [({"n": 1}, {"at": 40})]
    config = hostile(**{"value.converter": "JsonConverter", "transforms": "r", "count": "3"})
    config |= {"value.converter.schemas.enable": "false"}
    config |= {"transforms.r.type": "RegexRouter", "transforms.r.regex": "t", "transforms.r.replacement": "routed"}
    found = previewed(host, config, offsets=offsets)
    assert (len(found["records"]), found["ended"], found["tasks"], found["polls"]) == (5, "records", 3, 5)
    first = found["records"][0]
    assert (first["source_partition"], first["source_offset"]["at"]) == ({"n": 1}, 41)
    assert first["before"]["value"] == {"type": "object", "text": '{"n": 41}', "cut": 0}
    (step,) = first["steps"]
    assert (step["name"], step["outcome"], step["record"]["topic"]) == ("r", "changed", "routed")
    assert first["written"]["value"] == {"type": "bytes", "text": '{"n":41}', "cut": 0}
    assert first["written"]["key"]["text"] == "0xff"


def test_a_preview_commits_nothing_and_leaves_no_process(host: PluginHost, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    previewed(host, hostile("three", marker=str(marker)))
    lines = marker.read_text().split()
    assert "commit" not in lines
    assert lines[0] == "start"
    assert lines.index("task") < len(lines) - 1
    assert lines[-1] == "stop"  # the connector's, after the task's
    assert not psutil.pid_exists(int(lines[1]))


@pytest.mark.parametrize(
    ("mood", "bounds", "count", "ended"),
    [
        ("three", {}, 3, "nothing"),
        ("nothing", {"seconds": 0.3}, 0, "time"),
        ("big", {"bytes": 1_000_000}, 3, "bytes"),
        ("big", {"records": 2}, 2, "records"),
    ],
)
def test_a_preview_ends_by_number_bytes_or_time(
    host: PluginHost, mood: str, bounds: dict[str, float], count: int, ended: str
) -> None:
    found = previewed(host, hostile(mood), **bounds)
    assert (len(found["records"]), found["ended"]) == (count, ended)
    assert len(json.dumps(found)) < 60_000


def test_a_plugin_that_heeds_no_bound_is_stopped_and_holds_up_no_validation(host: PluginHost) -> None:
    def stopped_after() -> float:
        """Seconds; 0 on a busy machine, where its process only starts."""
        began = time.monotonic()
        with pytest.raises(PluginTimeout) as caught:
            previewed(host, hostile("hang in poll"), timeout=10)
        if isinstance(caught.value, PluginStarting):
            return 0
        assert "did not answer within" in caught.value.message
        return time.monotonic() - began

    assert eventually(stopped_after, 60, "the preview's end") < 23
    assert host.ask(ValidateConfig("Hostile", hostile()))["error_count"] == 0


def test_a_wrong_configuration_is_not_polled(host: PluginHost) -> None:
    with pytest.raises(BadRequest, match="not valid yet: Invalid value many for configuration count"):
        previewed(host, hostile(count="many"))
    with pytest.raises(BadRequest, match=r'"transforms\.r\.type"'):
        previewed(host, hostile(transforms="r"))


def test_no_secret_of_a_provider_is_shown_whole_or_in_pieces(provided: PluginHost, tmp_path: Path) -> None:
    """A transform could cut what a record or a setting holds into pieces that nobody can recognise."""
    reference = f"${{file:{tmp_path}/secrets:key}}"
    cut = {"type": "RegexRouter", "regex": "(t\\.)?(.{3}).*", "replacement": "$2"}
    config = hostile(
        "tell in records", password=reference, transforms="put,cut", **{"value.converter": "JsonConverter"}
    )
    config |= {f"transforms.cut.{key}": value for key, value in cut.items()}
    config |= {"transforms.put.type": "InsertField$Value", "transforms.put.static.field": "s"}
    config |= {"transforms.put.static.value": reference}
    found = previewed(provided, config)
    shown = json.dumps(found, ensure_ascii=False).replace(str(tmp_path), "")
    for piece in (SECRET, "sesame", "ses", "open"):
        assert piece not in shown
    assert found["records"][0]["before"]["topic"] == "t.[hidden]"
    assert reference in found["records"][0]["written"]["value"]["text"]
    with pytest.raises(PluginError) as caught:
        previewed(provided, {**config, "mood": "raise in poll"})
    assert "sesame" not in caught.value.message + (caught.value.trace or "")


def test_no_secret_leaves_in_a_struct_and_the_schema_stays(provided: PluginHost, tmp_path: Path) -> None:
    config = hostile("tell in structs", password=f"${{file:{tmp_path}/secrets:key}}", transforms="out,cut")
    config |= {"value.converter": "JsonConverter", "value.converter.schemas.enable": "true"}
    config |= {"transforms.out.type": "ExtractField$Value", "transforms.out.field": "inner"}
    cut = {"type": "RegexRouter", "regex": "(t\\.)?(.{3}).*", "replacement": "$2"}
    config |= {f"transforms.cut.{key}": value for key, value in cut.items()}
    found = previewed(provided, config)
    shown = json.dumps(found, ensure_ascii=False)
    assert "sesame" not in shown
    written = json.loads(found["records"][0]["written"]["value"]["text"])
    assert (written["schema"]["type"], written["payload"]) == ("struct", {"by": "[hidden]"})
    assert found["records"][0]["written"]["headers"][0][1]["text"] == "[hidden]"


def test_settings_that_are_secret_by_name_only_are_hidden_too(host: PluginHost) -> None:
    config = hostile("tell in records", **{"password": "x", "my.token": "mine-4711"})
    config |= {"transforms": "put", "transforms.put.type": "InsertField$Value", "value.converter": "JsonConverter"}
    config |= {"transforms.put.static.field": "s", "transforms.put.static.value": "mine-4711"}
    found = host.ask(PreviewRecords(config, pairs_of([]), {}, ["my.token", "transforms.put.static.value"], BOUNDS), 20)
    assert found["records"][0]["source_offset"]["by"] == "[hidden]"  # type: ignore[index]


def test_a_sample_record_goes_through_each_transform(host: PluginHost) -> None:
    put = {"type": "InsertField$Value", "static.field": "by", "static.value": "me"}
    drop = {"type": "Filter", "predicate": "dead"}
    never = {"type": "RegexRouter", "regex": "x", "replacement": "y"}
    config = hostile(transforms="put,drop,never", predicates="dead", **{"predicates.dead.type": "RecordIsTombstone"})
    for name, settings in (("put", put), ("drop", drop), ("never", never)):
        config |= {f"transforms.{name}.{key}": value for key, value in settings.items()}
    tried: Any = host.ask(TryChain(config, {"topic": "t", "value": {"a": 1}, "headers": [["h", 1]]}, {}, []))
    assert [(step["name"], step["outcome"]) for step in tried["steps"]] == [
        ("put", "changed"),
        ("drop", "unchanged"),
        ("never", "unchanged"),
    ]
    assert tried["before"]["value"]["text"] == '{"a": 1}'
    assert tried["steps"][0]["record"]["value"]["text"] == '{"a": 1, "by": "me"}'
    assert (tried["written"]["value"]["text"], tried["written"]["headers"][0][1]["text"]) == ('{"a":1,"by":"me"}', "1")
    dropped: Any = host.ask(TryChain(config, {"topic": "t", "value": None}, {}, []))
    assert dropped["outcome"] in ("dropped", "failed")
    assert dropped["written"] is None
    failed: Any = host.ask(TryChain(config, {"topic": "t", "value": "no object"}, {}, []))
    assert (failed["outcome"], failed["steps"][0]["outcome"]) == ("failed", "failed")
    assert failed["error"]
    for wrong in ({"value": 1}, {"topic": "t", "headers": [1]}, {"topic": "t", "timestamp": "now"}):
        with pytest.raises(BadRequest, match="sample record"):
            host.ask(TryChain(config, wrong, {}, []))
