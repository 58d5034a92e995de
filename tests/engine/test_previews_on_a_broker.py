"""On the real broker, with a real leader: a preview begins where the connector would, and leaves no trace."""

from collections.abc import Callable
from typing import Any

import pytest

from ringfence.engine.plugins.errors import PluginStarting
from ringfence.engine.queries.previews import Previews
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import topic_exists
from ringfence.requests.request import Refusal
from tests.support.engine_cluster import C, Cluster, at, move
from tests.support.waiting import eventually

BOUNDS = {"records": 3, "bytes": 1_000_000, "seconds": 30.0}


def test_a_preview_reads_what_the_connector_would_and_beside_it_only_where_that_hinders_nobody(
    cluster: Cluster, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = unique("data")
    config = {"name": C, "connector.class": "VerifiableSource", "topic": data}
    previews = Previews(cluster.plugins, cluster.config)

    def try_preview(fresh: bool) -> Any:
        try:
            return previews.preview(config, [], BOUNDS, Deadline.after(60), fresh=fresh)
        except PluginStarting:
            return None  # users are told to try it again, too

    def previewed(*, fresh: bool = False) -> Any:
        return eventually(lambda: try_preview(fresh), 60, "the preview")

    def values(found: Any) -> list[str]:
        return [record["written"]["value"]["text"] for record in found["records"]]

    assert values(previewed()) == ["0", "1", "2"], "nothing of the name is there yet"
    assert cluster.command("create", {"config": config, "initial_state": "STOPPED"})["ok"] is True
    eventually(lambda: not cluster.leader.state().connector(C).tasks_stale, 30, "the empty task set")
    eventually(lambda: not cluster.leader.state().connector(C).round_pending, 30, "the round is over")
    move(cluster, 40)
    found = previewed()
    assert (values(found), found["from"]) == (["41", "42", "43"], [{"partition": {"id": 0}, "offset": {"seqno": 40}}])
    assert values(previewed(fresh=True)) == ["0", "1", "2"]
    assert at(cluster, cluster.config.offsets_topic) == 40, "nothing is committed"
    assert not topic_exists(cluster.connection, data, Deadline.after(30)), "nothing is written"

    assert cluster.command("resume")["ok"] is True
    beside = previewed()
    assert (values(beside), beside["beside"]) == (["41", "42", "43"], True), "from where the running connector is"
    assert at(cluster, cluster.config.offsets_topic) == 40, "nothing is committed"
    plugins = cluster.plugins.plugins
    silent = [{**each, "preview_while_running": False} for each in plugins()]
    monkeypatch.setattr(cluster.plugins, "plugins", lambda _: silent)
    assert previewed() == {"busy": C}, "a connector that does not say that it may be read beside its tasks"
    assert cluster.command("stop")["ok"] is True
    eventually(lambda: "records" in previewed(), 30, "the round of the stop is over")
    assert previewed()["beside"] is False

    for _ in range(2):
        previews._places.enter(None)
    with pytest.raises(Refusal, match="2 previews are under way") as refused:
        previewed()
    assert (refused.value.status, refused.value.retry) == (503, True)
