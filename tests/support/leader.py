"""A stand-in for the leader and the plugin process: answers at once, remembers what was asked.

It runs the real commands, and so the real plans, on topics that are lists. What it cannot know without Kafka or plugin
code is canned. For codes and bodies only: what the real ones guarantee is tested with the real ones.
"""

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ringfence.dispatch import CommandResult, Refusal
from ringfence.engine.leader import commands
from ringfence.engine.leader.command_service import CommandContext
from ringfence.engine.leader.commands.command import LeaderCommand, Plan, WriteResult
from ringfence.engine.leader.commands.offsets import Act, OffsetEntry, plan_alteration
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.leader.task_slices import TaskConfigs
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, Incarnation, WorkerId
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.leader.term import TopicRecord
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.topics import status
from ringfence.fencing.topics.active_topics import key_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import fold
from ringfence.fencing.topics.config_records import TaskCountRecord
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import State, StatusState, StatusTombstone
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.history.models import ProofRun
from ringfence.projection.models import GenerationRow, Task, Worker
from ringfence.projection.projector import Projection
from ringfence.requests.request import Command, Question
from ringfence.worker_config import WorkerConfig
from tests.support.topics import Topic, connector_status, generation, task_status

PLUGIN = "VerifiableSource"
JAVA_PLUGIN = "org.apache.kafka.connect.tools.VerifiableSourceConnector"
SHARE_GROUPS = ("busy", "g-other", "g-team-a", "payments", "team-a-queue", "0")
"""What the cluster has: of two connectors, and of others; the worker group is `g`."""
KEYS = [
    {"name": "name", "type": "STRING", "required": True},
    {"name": "connector.class", "type": "STRING", "required": True},
    {"name": "topic", "type": "STRING", "required": True},
    {"name": "pin", "type": "PASSWORD", "required": False},
    {"name": "tasks.max", "type": "INT", "required": False},
]

PROOF: dict[str, Any] = {
    "verdict": "incomplete",
    "checks": [
        {"name": "transactions", "result": "ok", "message": "7 records visible", "remedy": ""},
        {"name": "source", "result": "unknown", "message": "This connector <b>cannot</b> tell", "remedy": "Ask it"},
    ],
    "counts": {
        "visible": 7, "aborted": 2, "open": 0, "dead_letters": None, "transactions": 3, "others": 0, "doubles": None,
        "gaps": None,
    },
    "topics": [
        {"topic": "t", "partitions": [{"partition": 0, "first": 0, "end": 12}], "partition_count": 1},
        {"topic": "offsets", "partitions": [{"partition": 0, "first": 0, "end": 9}], "partition_count": 1},
    ],
    "missing_topics": [],
    "offsets": [{"partition": {"file": "<i>x</i>"}, "offset": {"position": 7}}],
    "source_partitions": 1,
    "source_count": None,
    "attempts": [
        {"task": 0, "generation": 5, "attempt": 1, "transactions": 3, "counted": 7, "visible": 7, "difference": 0,
         "until_ms": 1_000},
    ],
    "positions": [],
    "cluster": {"id": "abc", "bootstrap": "k:9092"},
    "class": "VerifiableSource",
    "version": "1.0.0",
    "ringfence": "1",
    "connector": "team-a",
    "worker": "w",
}  # fmt: skip
"""What a worker found in Kafka."""


@dataclass
class FakeLeader:
    """Writes what a command asks for into a config topic and projects it, like the real chain."""

    config: Topic = field(default_factory=Topic)
    status: Topic = field(default_factory=Topic)
    offsets: Topic = field(default_factory=Topic)
    asked: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list)
    refusal: Refusal | None = None
    plugins_away: bool = False
    java: list[tuple[str, bool]] = field(default_factory=list)
    """What was asked, and whether a Java plugin might be."""
    share_partitions: int = 1
    busy: str = ""
    """The connector that keeps a preview from its source."""

    def project(self) -> None:
        for role, topic in (("config", self.config), ("status", self.status), ("offsets", self.offsets)):
            projection = Projection(role, role, "id")
            projection.apply(topic.records[projection.start.get(0, 0) :], topic.end)

    def command(
        self, request: Command[Any], *, timeout: float = 90, user: str = "", await_rows: bool = True
    ) -> CommandResult[Any]:
        self.asked.append((request.name, request.on, request.body()))
        if self.refusal is not None:
            raise self.refusal
        canned = self._canned(request)
        if canned is not None:
            return CommandResult(None, canned)
        assert isinstance(request, LeaderCommand)
        outcome = request.run(FakeContext(self), lambda done: None)
        self.project()
        return CommandResult(outcome.offset if outcome.offset >= 0 else len(self.config.records) - 1, outcome.value)

    def _canned(self, request: Command[Any]) -> dict[str, Any] | None:
        """Of what the real one asks Kafka for."""
        match request:
            case commands.FenceId():
                return {"fenced": [{"id": request.id, "producer_id": 7, "epoch": 4}]}
            case commands.EndHanging():
                return {"ended": self.hanging(request.connector, 1, [], [])}
            case commands.ActOnShareGroup():
                return self.move_share_group(request.group, request.act)
            case commands.Fence():
                return {}
            case _:
                return None

    def ask(self, question: Question[Any], timeout: float | None = None) -> Any:
        answer = getattr(self, {"list": "list_plugins", "offsets": "offsets_of"}.get(question.name, question.name))
        return answer(**{field.name: getattr(question, field.name) for field in fields(question)})

    def start(self, name: str, tasks: int = 1, state: State = State.RUNNING) -> None:
        """As if the leader had made a generation and the tasks had reported."""
        number = len(self.config.records) + tasks
        self.config.config(*generation(name, tasks, len(self.config.records)))
        told = [replace(task_status(name, n, state, number), since_ms=1_000 + number) for n in range(tasks)]
        self.status.status(connector_status(name, state), *told)
        self.project()

    def report(self, name: str, number: int, state: State, **fields: Any) -> None:
        """As if a task of the newest generation had reported; newer than all before."""
        newest = max(Task.objects.filter(connector=name).values_list("generation", "since_ms"))
        status = task_status(name, number, state, newest[0])
        self.status.status(replace(status, since_ms=newest[1] + 1, **fields))
        self.project()

    def guarantee(self, config: Mapping[str, str]) -> dict[str, str]:
        self.asked.append(("guarantee", config["name"], dict(config)))
        if self.refusal is not None:
            raise self.refusal
        return {"guarantee": "At least once", "why": f"Set <b>key</b>, not {config.get('pin', '')}."}

    def validate(self, plugin: str, config: Mapping[str, Any], java: bool, ask_brokers: bool = True) -> dict[str, Any]:
        self.java.append(("validate", java))
        if self.plugins_away:
            raise Refusal(500, "Request timed out. It waited for a worker's plugin process.")
        if not plugin.endswith(PLUGIN):
            raise Refusal(404, f"Failed to find any class that implements Connector and which name matches {plugin}")
        configs = []
        for key in KEYS:
            errors = []
            if key["required"] and key["name"] not in config:
                errors = [f'Missing required configuration "{key["name"]}" which has no default value.']
            value = config.get(str(key["name"]))
            if key["name"] == "pin" and value is not None and len(value) < 5:
                errors = [f"Invalid value {value} for configuration pin: too short"]
            shown = {"name": key["name"], "value": value, "recommended_values": [], "errors": errors, "visible": True}
            configs.append({"definition": key, "value": shown})
        count = sum(bool(entry["value"]["errors"]) for entry in configs)
        return {"name": plugin, "error_count": count, "groups": ["Common"], "configs": configs}

    def config_keys(self, plugin: str, common: bool = False, version: str | None = None) -> list[dict[str, Any]]:
        if self.plugins_away:
            raise Refusal(503, "Redis does not answer", retry=True)
        if not plugin.endswith(PLUGIN):
            raise Refusal(404, f"Unknown plugin {plugin}")
        return KEYS

    def preflight(self, config: Mapping[str, str], java: bool) -> list[dict[str, Any]]:
        self.java.append(("preflight", java))
        self.asked.append(("preflight", config.get("name"), dict(config)))
        if self.refusal is not None:
            raise self.refusal
        quoted = f"The pin {config.get('pin', '')} was not quoted"
        return [
            {"name": "broker version", "result": "ok", "message": "Kafka 4.3", "remedy": "", "key": ""},
            {"name": "client settings", "result": "failed", "message": quoted, "remedy": "Mend it", "key": ""},
        ]

    def preview(
        self,
        config: Mapping[str, str],
        secret: list[str],
        bounds: Mapping[str, float],
        fresh: bool,
        java: bool,
    ) -> dict[str, Any]:
        self.java.append(("preview", java))
        self.asked.append(("preview", config.get("name"), {"config": dict(config), "secret": secret, "fresh": fresh}))
        if self.refusal is not None:
            raise self.refusal
        if self.busy:
            return {"busy": self.busy}
        walked = self._walk(config, {"topic": config.get("topic", "t"), "value": "a line"})
        record = {"source_partition": {"file": "x"}, "source_offset": {"position": 7}, **walked}
        ended = {"polls": 3, "ended": "nothing", "note": "", "took_ms": 12, "from": [], "beside": False, "tasks": 1}
        return {**ended, "records": [record]}

    def try_transforms(
        self, config: Mapping[str, str], record: Mapping[str, Any], secret: list[str], java: bool
    ) -> dict[str, Any]:
        self.java.append(("try_transforms", java))
        self.asked.append(("try_transforms", config.get("name"), {"config": dict(config), "record": dict(record)}))
        if self.refusal is not None:
            raise self.refusal
        return self._walk(config, record)

    def _walk(self, config: Mapping[str, str], record: Mapping[str, Any]) -> dict[str, Any]:
        quoted = {"type": "text", "text": f"{record.get('value')} {config.get('pin', '')}", "cut": 0}
        before = {"topic": record["topic"], "partition": None, "timestamp": None, "key": None, "headers": []}
        after = {**before, "value": {**quoted, "type": "bytes"}}
        step = {"name": "route", "type": "RegexRouter", "outcome": "changed", "error": ""}
        steps = [{**step, "record": {**before, "topic": "routed", "value": quoted}}]
        walked = {"before": {**before, "value": quoted}, "steps": steps, "outcome": "written"}
        return {**walked, "written": {**after, "topic": "routed"}, "error": ""}

    def dead_letters(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(("dead_letters", asked["config"]["name"], dict(asked)))
        if self.refusal is not None:
            raise self.refusal
        pin = str(asked["config"].get("pin", ""))

        def b64(text: str) -> str:
            return base64.b64encode(text.encode()).decode()

        text = {"stage": "VALUE_CONVERTER", "class": "JsonConverter", "error": "builtins.ValueError", "topic": "t"}
        text |= {"message": f"<b>{pin}</b> is no number", "trace": "Traceback: it broke", "task": "0"}
        text |= {"source_partition": '{"file":"x"}', "source_offset": '{"position":7}'}
        blank: dict[str, Any] = {**text, "timestamp_ms": 5, "seen": "committed", "key": None, "key_size": -1}
        blank |= {"value": b64(f"a <i>line</i> {pin}"), "value_size": 20, "headers": [["h", b64("x"), 1]]}
        states = {7: "no", 5: "yes", 3: "undecided"}
        letters = [{**blank, "partition": 0, "offset": n, "replayed": state} for n, state in states.items()]
        edges = [{"partition": 0, "first": 2, "end": 12}]
        topic = asked["config"]["errors.deadletterqueue.topic.name"]
        answer = {"topic": topic, "letters": letters, "partitions": edges, "partition_count": 1, "complete": True}
        return {**answer, "before": None if asked["before"] else [[0, 3]]}

    def replay(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(("replay", asked["config"]["name"], dict(asked)))
        if self.refusal is not None:
            raise self.refusal
        places = asked["chosen"].get("places", [[0, 7], [0, 8]])
        results = [
            {"partition": p, "offset": o, "became": "failed", "topic": "", "why": f"no {asked['config'].get('pin')}"}
            if n
            else {"partition": p, "offset": o, "became": "written", "topic": "t", "why": ""}
            for n, (p, o) in enumerate(places)
        ]
        return {"topic": "bad", "results": results, "left": 0 if "places" in asked["chosen"] else 4}

    def proof(self, **asked: Any) -> dict[str, Any]:
        """As if a worker had counted at once."""
        self.asked.append(("proof", asked["config"]["name"], dict(asked)))
        if self.refusal is not None:
            raise self.refusal
        rows = ProofRun.objects.filter(connector=asked["config"]["name"], number=asked["number"])
        rows.update(state="done", worker="w", ended_ms=2_000, report=json.dumps(PROOF))
        return {"worker": "w"}

    def transactions(
        self,
        connector: str,
        tasks: int,
        config: Mapping[str, str],
        earlier: Sequence[Mapping[str, str]] = (),
    ) -> list[dict[str, Any]]:
        before = {"earlier": [dict(one) for one in earlier]} if earlier else {}
        self.asked.append(("transactions", connector, {"tasks": tasks, **before}))
        if self.refusal is not None:
            raise self.refusal
        blank: dict[str, Any] = {
            "cluster": "k:9092",
            "timeout_ms": 60_000,
            "transaction_version": 2,
            "producer_id": 7,
            "epoch": 3,
            "partitions": [{"topic": "t", "partition": 0}],
        }
        is_open = {"state": "Ongoing", "open": True, "started_ms": 5, "age_ms": 12}
        shut = {"state": "CompleteCommit", "open": False, "started_ms": -1, "age_ms": None}
        return [{"id": f"g-{connector}-{n}", "task": n, **blank, **(shut if n else is_open)} for n in range(tasks)]

    def hanging(
        self,
        connector: str,
        tasks: int,
        configs: Sequence[Mapping[str, str]],
        topics: Sequence[str],
    ) -> list[dict[str, Any]]:
        self.asked.append(("hanging", connector, {"tasks": tasks, "topics": list(topics)}))
        if self.refusal is not None:
            raise self.refusal
        where = {"cluster": "k:9092", "topic": "t", "partition": 0, "start_offset": 12, "age_ms": 7_200_000}
        return [{**where, "producer_id": 7, "epoch": 3, "transactional_id": f"g-{connector}-0", "why_not": ""}]

    def topics(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        self.asked.append(("topics", None, {"names": names}))
        if self.refusal is not None:
            raise self.refusal
        internal = {"connect-configs": "the workers' config topic", "__consumer_offsets": "a topic of Kafka's own"}
        known = ["__consumer_offsets", "connect-configs", "orders", "payroll", "t", "team-a.events"]
        if names is None:
            return {"names": known, "internal": internal}
        facts = {
            "partitions": 3,
            "replicas": 1,
            "offsets": 1234,
            "newest_ms": 5_000,
            "settings": {"retention.ms": "-1"},
        }
        return {"topics": [{"name": one, **facts, "internal": internal.get(one, "")} for one in names if one in known]}

    def records(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(("records", asked["topic"], asked))
        if self.refusal is not None:
            raise self.refusal

        def field(text: str, kind: str = "string") -> dict[str, Any]:
            return {"kind": kind, "text": text, "size": len(text), "cut": False, "schema": "", "problem": ""}

        blank: dict[str, Any] = {"partition": 0, "timestamp_ms": 5, "headers": [{"name": "h", **field("x")}]}
        values = (("waiting", '{"n": 2}'), ("open", '{"n": 1}'), ("aborted", '{"n": 1, "m": [1]}'))
        records = [
            {**blank, "offset": 9 - n, "seen": seen, "key": field("k1"), "value": field(text, "JSON")}
            for n, (seen, text) in enumerate(values)
        ]
        records += [{**blank, "offset": 3, "seen": "committed", "key": field("null", "null"), "value": field("<b>")}]
        place = {"partition": 0, "first": 0, "stable": 8, "end": 10, "start": 3, "until": 10}
        held = {"partition": 0, "producer_id": 7, "first_offset": 8, "transactional_id": "g-team-a-0", "since_ms": 5}
        rest = {"cursor": {"0": 3}, "more": True, "complete": True, "scanned": 7, "open_transactions": [held]}
        return {"records": records, "partitions": [place], "partition_count": 1, **rest}

    def origin(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(("origin", asked["topic"], asked))
        if self.refusal is not None:
            raise self.refusal
        held = {"transactional_id": "g-team-a-0", "coordinator_state": "Ongoing", "coordinator_epoch": 3, "problem": ""}
        ended = {"state": "committed", "marker_offset": 12, "marker_ms": 5}
        offset = {"topic": "connect-offsets", "kafka_partition": 4, "kafka_offset": 17, "partition": {"id": 0}}
        who = {"connector": "team-a", "task": 0, "generation": 3, "attempt": 1, "exact": True}
        committed = [{**offset, "offset": {"seqno": 9}, "before": {"seqno": 6}}]
        transaction = {"producer_id": 7, "epoch": 3, **ended, **held}
        return {"transaction": transaction, "source": {**who, "offsets": committed}, "why": ""}

    def share_groups(self) -> dict[str, Any]:
        self.asked.append(("share_groups", None, {}))
        if self.refusal is not None:
            raise self.refusal
        blank = {"state": "Empty", "members": 0, "topics": ["t"], "partitions": 1, "lag": 20, "problem": ""}
        return {"worker_group": "g", "groups": [{**blank, "group": name} for name in SHARE_GROUPS]}

    def share_group(self, group: str, act: Mapping[str, Any] | None = None, skip: int = 0) -> dict[str, Any]:
        self.asked.append(("share_group", group, {"act": act}))
        if self.refusal is not None:
            raise self.refusal
        if group not in SHARE_GROUPS:
            raise Refusal(404, f"There is no share group {group}")
        member = {"member": "m1", "client": "app", "host": "10.0.0.7", "epoch": 2, "topics": ["t"]}
        members = [{**member, "assigned": [{"topic": "t", "partition": 0}]}] if group == "busy" else []
        if act is None:
            place = {"topic": "t", "topic_id": "id-of-t", "partition": 0, "start": 100, "lag": 20, "problem": ""}
            setting = {"name": "share.record.lock.duration.ms", "value": "30000", "own": False}
            known = {"worker_group": "g", "group": group, "state": "Stable" if members else "Empty", "epoch": 3}
            edges = {"first": 40, "stable": 120, "end": 120}
            partitions = [{**place, **edges, "partition": number} for number in range(self.share_partitions)]
            shown = {"members": members, "partitions": partitions, "settings": [setting]}
            strip = [[100, 104, "acknowledged", 1], [105, 106, "archived", 5], [107, 119, "available", 0]]
            state = {"topic": "t", "partition": 0, "whole": True, "start": 100, "end": 120, "cut": 0, "complete": 5}
            page = partitions[skip : skip + 20]
            states = [
                {**state, "partition": each["partition"], "strip": strip, "archived": strip[1:2]} for each in page
            ]
            return {**known, **shown, "states": states, "skip": skip}
        to = 40 if act.get("to") == "earliest" else 90
        move = {"topic": "t", "topic_id": "id-of-t", "partition": 0, "first": 40, "end": 120, "start": 100, "to": to}
        return {"worker_group": "g", "members": members, "moves": [{**move, "forgets": act["kind"] != "alter"}]}

    def share_archived(self, group: str) -> dict[str, Any]:
        """Two records were archived behind the start, and ten beyond it."""
        place = {"topic": "t", "topic_id": "id-of-t", "partition": 0, "start": 102, "stable": 120}
        return {"worker_group": "g", "places": [{**place, "archived": [[100, 101], [105, 114]]}], "left_out": 0}

    def consumer_groups(self, search: str, topic: str) -> dict[str, Any]:
        self.asked.append(("consumer_groups", None, {"search": search, "topic": topic}))
        if self.refusal is not None:
            raise self.refusal

        def one(name: str, *topics: str) -> dict[str, Any]:
            row = {"partitions": 2, "lag": 5, "lag_to_end": 12}
            head = {"group": name, "state": "Stable", "protocol": "classic", "members": 1}
            return {**head, "topics": [{"topic": each, **row} for each in topics]}

        groups = [one("billing", "payroll", "orders"), one("dash", "team-a.events"), one("w", "connect-configs")]
        return {"groups": groups, "left_out": 3, "internal": {"connect-configs": "the config topic"}}

    def consumer_group(self, group: str) -> dict[str, Any]:
        if group == "nobody":
            raise Refusal(404, "There is no consumer group nobody")
        topics = {"billing": ["payroll", "orders"], "w": ["connect-configs"]}.get(group, ["team-a.events"])
        holder = {"transactional_id": "connect-cluster-team-a-1", "producer_id": 7, "epoch": 3, "first_offset": 20}
        places = [{"topic": each, "partition": 0} for each in topics]
        numbers = {"committed": 15, "stable": 20, "end": 27, "lag": 5, "lag_to_end": 12, "member": "m"}
        return {
            "group": group,
            "state": "Stable",
            "protocol": "consumer",
            "members": [{"member": "m", "client": "<b>app</b>", "host": "10.0.0.7", "assigned": places}],
            "partitions": [{**place, **numbers, "holder": {**holder, "since_ms": 5_000}} for place in places],
            "left_out": 0,
            "internal": {"connect-configs": "the config topic"},
            "problem": "",
            "worker_group": "connect-cluster",
        }

    def share_timeline(self, group: str, topic: str, partition: int) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        blank: dict[str, Any] = {"start": 100, "archived": [], "cut": 0, "complete": 0}
        first = {"offset": 7, "time_ms": 5_000, "kind": "snapshot", "changed": [], "end": 100, "strip": [], **blank}
        acked = [[100, 104, "acknowledged", 1]]
        then = {"offset": 9, "time_ms": 6_000, "kind": "update", "changed": acked, "end": 105, "strip": acked, **blank}
        place = {"topic": topic, "partition": partition, "end": 120, "whole": True, "left_out": 0}
        return {"worker_group": "g", **place, "steps": [first, then]}

    def move_share_group(self, group: str, act: Act) -> dict[str, Any]:
        """As the leader answers."""
        if act["kind"] == "configure":
            settings = act["settings"].items()
            return {"settings": [{"name": name, "value": value or "", "own": True} for name, value in settings]}
        return {"moves": self.share_group(group, act)["moves"], "unsure": []}

    def offsets_of(self, connector: str, config: Mapping[str, str]) -> list[dict[str, Any]]:
        self.asked.append(("offsets", connector, dict(config)))
        return [{"partition": {"id": 0}, "offset": {"seqno": 43}}]

    def list_plugins(self) -> list[dict[str, Any]]:
        return [
            {"class": PLUGIN, "type": "source", "version": "0.1.0", "names": [PLUGIN, JAVA_PLUGIN]},
        ]


class FakeLeaderThread:
    """What commands use of `Leader`: topics that are lists, rounds and restarts of which nothing is to be done."""

    def __init__(self, leader: FakeLeader) -> None:
        self._leader = leader
        self.worker_config = WorkerConfig.from_environment({})
        rows = Worker.objects.values_list("worker", "incarnation", "slots")
        self.members = [LiveWorker(WorkerId(worker), Incarnation(own), slots) for worker, own, slots in rows]
        self.hand_over = SimpleNamespace(ask=lambda members, limit: WorkerId("w2"))
        self.rounds = SimpleNamespace(retry_now=lambda name: None)
        self.instances = SimpleNamespace(
            mark_started=lambda name, config_offset: None,
            discard=lambda name: None,
            trace_of=lambda name, config_offset: None,
            restart=lambda name: None,
        )

    def state(self) -> ClusterState:
        return fold(ClusterState(), cast(list[LogRecord], self._leader.config.records), "config")

    def statuses(self) -> StatusState:
        state = StatusState()
        for entry in self._leader.status.records:
            state = status.apply(state, status.decode(entry.key, entry.value))
        return state

    def wake(self) -> None: ...

    def mark_restarting(self, name: ConnectorName, tasks: list[int]) -> None: ...


class FakeContext(CommandContext):
    """What a command works with: topics that are lists, a plugin that makes no tasks, rounds that are over."""

    def __init__(self, leader: FakeLeader) -> None:
        self._fake = leader
        self.leader = cast(Leader, FakeLeaderThread(leader))
        silent = SimpleNamespace(now_ms=lambda: int(time.time() * 1000), event=lambda *_, **__: None)
        self.reporter = cast(Reporter, silent)
        self.limit = Deadline.after(90)
        self.account = ""

    def fork(self) -> "FakeContext":
        return self

    def write(self, plan: Plan) -> WriteResult:
        records = list(plan(self.leader.state()))
        for record in records:
            assert not isinstance(record, TopicRecord)
            self._fake.config.config(record)
        return WriteResult(self.leader.state(), len(self._fake.config.records) - 1 if records else -1)

    def await_round(self, name: ConnectorName) -> None:
        """It has fenced the ids of two tasks."""
        generation = self.leader.state().connector(name).generation
        assert generation is not None
        self._fake.config.config(TaskCountRecord(name, 2, generation))
        self._fake.project()
        fenced = [{"id": f"g-{name}-{task}", "producer_id": 7 + task, "epoch": 4} for task in range(2)]
        row = GenerationRow.objects.filter(connector=name, generation=generation)
        row.update(stage="done", fenced=json.dumps(fenced))

    def validate(self, config: Mapping[str, str], *, java: bool) -> dict[str, Any]:
        try:
            return self._fake.validate(config["connector.class"].strip(), config, java=java)
        except Refusal as refused:
            raise Refusal(400 if refused.status == 404 else refused.status, refused.message) from refused

    def read_offsets_ahead(self, name: ConnectorName, config: Mapping[str, str]) -> None: ...

    def make_tasks(
        self, name: ConnectorName, config: Mapping[str, str], grant: TopicGrantRecord | None
    ) -> TaskConfigs | None:
        return None

    def look_up_version(self, config: Mapping[str, str]) -> None: ...

    def forget_topics(self, name: ConnectorName) -> dict[int, int]:
        for topic in sorted(self.leader.statuses().topics.get(name, ())):
            self._fake.status.status(StatusTombstone(key_of(name, topic)))
        return {}

    def plan_offsets(self, connector: ConnectorState, entries: list[OffsetEntry] | None) -> tuple[Plan, bool]:
        if connector.round_pending:  # a round takes no time here
            self.await_round(connector.name)
        return plan_alteration(connector.name, [], SourceOffsets(connector.name), "offsets"), False

    def plan_ledger(self, connector: ConnectorState, decide: object) -> Plan:
        raise NotImplementedError

    def ends_of_offsets(self) -> dict[int, int]:
        return {}


@pytest.fixture(autouse=True)
def leader(monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    """For each test of a folder whose `conftest.py` imports it."""
    return replace_leader(monkeypatch)


def replace_leader(monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    """Have this process ask a new `FakeLeader`, and forget what it knows of the last one."""
    from ringfence import dispatch
    from ringfence.api import root
    from ringfence.http import masking

    fake = FakeLeader()
    monkeypatch.setattr(dispatch, "command", fake.command)
    monkeypatch.setattr(dispatch, "ask", fake.ask)
    masking._asked_in_vain.clear()
    root._cache.until = 0.0
    root._cache.was_healthy = False
    root._ready_cache.until = 0.0
    return fake
