"""The requests, in their order. Connector `diff` lives through them; nothing else may be on the servers."""

from pathlib import Path
from typing import Any

from tests.differential.sides import Ask, Step, Until

C = "/connectors/diff"
PLUGIN = "/connector-plugins/FileStreamSource"
CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def script(source: Path, topic: str) -> list[Step]:
    """`source`: a file with a few lines."""
    config = {"connector.class": CLASS, "file": str(source), "topic": topic, "tasks.max": "1"}
    return [
        *_server(),
        *_plugins(config),
        *_loggers(),
        *_missing(),
        *_bad_bodies(config),
        *_refused_names(config),
        *_nulls(config),
        *_wrong_converters(config),
        *_life(config),
        *_offsets(str(source)),
        *_end(config),
    ]


def running(body: Any) -> bool:
    states = [body["connector"]["state"], *(task["state"] for task in body["tasks"])]
    return len(states) == 2 and set(states) == {"RUNNING"}


def stopped(body: Any) -> bool:
    return body["connector"]["state"] == "STOPPED" and not body["tasks"]


def _server() -> list[Step]:
    html = {"Accept": "text/html"}
    return [
        Ask("root", "GET", "/"),
        Ask("health", "GET", "/health"),
        Ask("health with a slash", "GET", "/health/"),
        Ask("unknown path", "GET", "/nothing/here"),
        Ask("tasks-config is gone", "GET", "/connectors/x/tasks-config"),
        Ask("method not allowed", "POST", "/health"),
        Ask("method not allowed on a connector", "POST", "/connectors/x/config", body={}),
        Ask("html is not to be had", "GET", "/connectors", headers=html),
        Ask("any content type is to be had", "GET", "/connectors", headers={"Accept": "*/*"}),
        Ask("head", "HEAD", "/connectors"),
        Ask("head of a missing connector", "HEAD", "/connectors/x"),
        Ask("options", "OPTIONS", "/connectors"),
        Ask("options of the root", "OPTIONS", "/"),
        Ask("no connectors", "GET", "/connectors"),
        Ask("no connectors, with a slash", "GET", "/connectors/"),
        Ask("no connectors, expanded", "GET", "/connectors?expand=status&expand=info"),
    ]


def _plugins(config: dict[str, str]) -> list[Step]:
    full = {**config, "name": "v"}
    validate = f"{PLUGIN}/config/validate"

    def sized(body: Any) -> Any:
        return {**body, "groups": [], "configs": body["configs"][:1]}

    return [
        Ask("plugins", "GET", "/connector-plugins"),
        Ask("all plugins", "GET", "/connector-plugins?connectorsOnly=false"),
        Ask("plugin config", "GET", f"{PLUGIN}/config", by_name=True),
        Ask("plugin config by class", "GET", f"/connector-plugins/{CLASS}/config", by_name=True),
        Ask("config of an unknown plugin", "GET", "/connector-plugins/Nope/config"),
        Ask("config of an unknown version", "GET", f"{PLUGIN}/config?version=99"),
        Ask("validate", "PUT", validate, body=full, by_name=True),
        Ask("validate by class", "PUT", f"/connector-plugins/{CLASS}/config/validate", body=full, pick=sized),
        Ask("validate with errors", "PUT", validate, body={**full, "tasks.max": "x", "topic": ""}, by_name=True),
        Ask("validate a transform", "PUT", validate, body={**full, **_TRANSFORM}, by_name=True),
        Ask("validate a predicate", "PUT", validate, body={**full, **_PREDICATE}, by_name=True),
        Ask(
            "validate an unknown transform",
            "PUT",
            validate,
            body={**full, "transforms": "t", "transforms.t.type": "x.Y"},
            pick=sized,
        ),
        Ask("validate another class", "PUT", validate, body={**full, "connector.class": "VerifiableSource"}),
        Ask("validate without a class", "PUT", validate, body={"name": "v"}),
        Ask("validate nothing", "PUT", validate, body={}),
        Ask("validate a null", "PUT", validate, body={**full, "batch.size": None}, pick=sized),
        Ask("validate numbers", "PUT", validate, body={**full, "tasks.max": 2, "batch.size": 3}, pick=sized),
    ]


_TRANSFORM = {
    "transforms": "add",
    "transforms.add.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.add.static.field": "a",
    "transforms.add.static.value": "b",
}
_PREDICATE = {
    **_TRANSFORM,
    "predicates": "named",
    "predicates.named.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.named.pattern": "a.*",
    "transforms.add.predicate": "named",
    "transforms.add.negate": "true",
}


def _loggers() -> list[Step]:
    def root(body: Any) -> Any:
        return {"root": body["root"]}

    ours = "/admin/loggers/a.logger"
    return [
        Ask("set all loggers", "PUT", "/admin/loggers/root", body={"level": "ERROR"}),
        Ask("set all loggers back", "PUT", "/admin/loggers/root", body={"level": "INFO"}),
        Ask("loggers", "GET", "/admin/loggers", pick=root),
        Ask("loggers with a slash", "GET", "/admin/loggers/", pick=root),
        Ask("root logger", "GET", "/admin/loggers/root"),
        Ask("unknown logger", "GET", "/admin/loggers/no.such.logger"),
        Ask("set a logger", "PUT", ours, body={"level": "error"}),
        Ask("the logger that was set", "GET", ours),
        Ask("set a logger everywhere", "PUT", f"{ours}?scope=cluster", body={"level": "FATAL"}),
        Ask("set a logger in a bogus scope", "PUT", f"{ours}?scope=bogus", body={"level": "OFF"}),
        Ask("a level is needed", "PUT", ours, body={}),
        Ask("an unknown level", "PUT", ours, body={"level": "loud"}),
        Ask("an unknown level everywhere", "PUT", f"{ours}?scope=cluster", body={"level": "loud"}),
        Ask("a level without a body", "PUT", ours),
        Ask("a level in a list", "PUT", ours, body=[]),
        Ask("delete a logger", "DELETE", ours),
    ]


def _missing() -> list[Step]:
    calls = [
        ("GET", ""), ("GET", "/config"), ("GET", "/status"), ("GET", "/tasks"), ("GET", "/tasks/0/status"),
        ("GET", "/topics"), ("GET", "/offsets"), ("PUT", "/pause"), ("PUT", "/resume"), ("PUT", "/stop"),
        ("POST", "/restart"), ("POST", "/restart?includeTasks=true"), ("POST", "/tasks/0/restart"), ("DELETE", ""),
        ("DELETE", "/offsets"), ("PUT", "/topics/reset"),
    ]  # fmt: skip
    entry = {"partition": {"filename": "f"}, "offset": None}
    return [
        *(Ask(f"missing: {method} {path}", method, f"/connectors/x{path}") for method, path in calls),
        Ask("missing: PATCH config", "PATCH", "/connectors/x/config", body={"a": "b"}),
        Ask("missing: PATCH offsets", "PATCH", "/connectors/x/offsets", body={"offsets": [entry]}),
        Ask("missing: PATCH no offsets", "PATCH", "/connectors/x/offsets", body={"offsets": []}),
        Ask("a task that is no number", "GET", "/connectors/x/tasks/a/status"),
        Ask("an encoded slash in a name", "GET", "/connectors/a%2Fb"),
        Ask("an encoded space in a name", "GET", "/connectors/a%20b"),
        Ask("an encoded letter in a name", "GET", "/connectors/%C3%BC/status"),
    ]


def _bad_bodies(config: dict[str, str]) -> list[Step]:
    new, put = "/connectors", "/connectors/bad/config"
    return [
        Ask("create from broken JSON", "POST", new, raw=b"{"),
        Ask("create from nothing", "POST", new, raw=b""),
        Ask("create from a list", "POST", new, body=[]),
        Ask("create with an unknown field", "POST", new, body={"name": "bad", "config": config, "x": 1}),
        Ask("create without a config", "POST", new, body={"name": "bad"}),
        Ask("create without a name", "POST", new, body={"config": config}),
        Ask("create with two names", "POST", new, body={"name": "bad", "config": {**config, "name": "other"}}),
        Ask("create with a bad state", "POST", new, body={"name": "bad", "config": config, "initial_state": "x"}),
        Ask("create without a class", "POST", new, body={"name": "bad", "config": {}}),
        Ask("create an unknown class", "POST", new, body={"name": "bad", "config": {"connector.class": "x.Y"}}),
        Ask("create invalid", "POST", new, body={"name": "bad", "config": {"connector.class": CLASS}}),
        Ask("create as text", "POST", new, raw=b"{}", content_type="text/plain"),
        Ask("create without a type", "POST", new, raw=b"{}", content_type=None),
        Ask("configure with another name", "PUT", put, body={**config, "name": "other"}),
        Ask("configure with a nested value", "PUT", put, body={**config, "topic": {"a": 1}}),
        Ask("configure from null", "PUT", put, raw=b"null"),
        Ask("configure from a list", "PUT", put, body=[]),
        Ask("pause as text", "PUT", f"{C}/pause", raw=b"x", content_type="text/plain"),
        Ask("nothing bad was created", "GET", "/connectors"),
    ]


def _refused_names(config: dict[str, str]) -> list[Step]:
    new = "/connectors"
    control = {"name": "a\x01b\n", "config": config}
    return [
        Ask("create with a null name", "POST", new, body={"name": None, "config": config}),
        Ask("create with an empty name", "POST", new, body={"name": "", "config": config}),
        Ask("create with a blank name", "POST", new, body={"name": " \t", "config": config}),
        Ask("create with control characters that are trimmed", "POST", new, body={"name": "\x01", "config": config}),
        Ask("create with control characters in the name", "POST", new, body=control),
        Ask("create with a name in the config only", "POST", new, body={"config": {**config, "name": "x"}}),
        Ask("configure a blank name", "PUT", f"{new}/%20/config", body=config),
        Ask("get a blank name", "GET", f"{new}/%20"),
        Ask("configure a name with control characters", "PUT", f"{new}/a%01b/config", body=config),
        Ask("get a name with control characters", "GET", f"{new}/a%01b"),
        Ask("pause a name with control characters", "PUT", f"{new}/a%0Ab/pause"),
        Ask("configure without a name", "PUT", f"{new}//config", body=config),
        Ask("no refused name was created", "GET", new),
    ]


def _nulls(config: dict[str, str]) -> list[Step]:
    new, validate = "/connectors", f"{PLUGIN}/config/validate"
    full = {**config, "name": "v"}

    def errors(body: Any) -> Any:
        return {entry["value"]["name"]: "wrong" for entry in body["configs"] if entry["value"]["errors"]}

    return [
        Ask("create with a null", "POST", new, body={"name": "null", "config": {**config, "unknown": None}}),
        Ask("configure with a null", "PUT", f"{new}/null/config", body={**config, "unknown": None}),
        Ask("validate an unknown null", "PUT", validate, body={**full, "unknown": None}, pick=errors),
        Ask("validate a null name", "PUT", validate, body={**config, "name": None}, pick=errors),
    ]


def _wrong_converters(config: dict[str, str]) -> list[Step]:
    validate, json = f"{PLUGIN}/config/validate", "org.apache.kafka.connect.json.JsonConverter"
    header = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

    def errors(body: Any) -> Any:
        found = {entry["value"]["name"]: len(entry["value"]["errors"]) for entry in body["configs"]}
        return {"count": {str(body["error_count"]): 1}, **{name: {str(n): 1} for name, n in found.items() if n}}

    def ask(what: str, settings: dict[str, str]) -> Ask:
        return Ask(
            f"validate a converter {what}", "PUT", validate, body={**config, "name": "v", **settings}, pick=errors
        )

    return [
        ask("that is unknown", {"value.converter": "x.Y"}),
        ask("for headers", {"value.converter": header}),
        ask("with a wrong setting", {"value.converter": json, "value.converter.schemas.enable": "maybe"}),
        ask("with a wrong format", {"key.converter": json, "key.converter.decimal.format": "nope"}),
        ask("of headers with a wrong setting", {"header.converter": json, "header.converter.schemas.cache.size": "x"}),
        Ask(
            "create with a wrong converter",
            "POST",
            "/connectors",
            body={"name": "bad", "config": {**config, "value.converter": json, "value.converter.schemas.enable": "x"}},
        ),
    ]


def _life(config: dict[str, str]) -> list[Step]:
    charset = "application/json; charset=utf-8"
    return [
        Ask("create", "POST", "/connectors/", body={"name": " diff ", "config": config}, content_type=charset),
        Until(f"{C}/status", running),
        Ask("create again", "POST", "/connectors", body={"name": "diff", "config": config}, conflicts=True),
        Ask("list", "GET", "/connectors"),
        Ask("list with status", "GET", "/connectors?expand=status"),
        Ask("list with both", "GET", "/connectors?expand=status&expand=info"),
        Ask("list with nonsense", "GET", "/connectors?expand=nonsense"),
        Ask("list with a comma", "GET", "/connectors?expand=status,info"),
        Ask("get", "GET", C),
        Ask("get with a slash", "GET", f"{C}/"),
        Ask("get config", "GET", f"{C}/config"),
        Ask("get status", "GET", f"{C}/status"),
        Ask("get tasks", "GET", f"{C}/tasks"),
        Ask("get task status", "GET", f"{C}/tasks/0/status"),
        Ask("get the status of no task", "GET", f"{C}/tasks/7/status"),
        Until(f"{C}/topics", lambda body: bool(body["diff"]["topics"])),
        Ask("get topics", "GET", f"{C}/topics"),
        Ask("reset topics", "PUT", f"{C}/topics/reset"),
        Ask("configure", "PUT", f"{C}/config", body={**config, "batch.size": 100}),
        Until(f"{C}/status", running),
        Ask("the config after that", "GET", f"{C}/config"),
        Ask("patch", "PATCH", f"{C}/config", body={"batch.size": None, "errors.log.enable": True}),
        Until(f"{C}/status", running),
        Ask("the config after the patch", "GET", f"{C}/config"),
        Ask("patch invalid", "PATCH", f"{C}/config", body={"tasks.max": "0"}),
        Ask("patch from a list", "PATCH", f"{C}/config", body=[]),
        Ask("patch another name", "PATCH", f"{C}/config", body={"name": "diff"}),
        Until(f"{C}/status", running),
        Ask("pause with an empty JSON body", "PUT", f"{C}/pause", raw=b""),
        Until(f"{C}/status", lambda body: {t["state"] for t in body["tasks"]} == {"PAUSED"}),
        Ask("status while paused", "GET", f"{C}/status"),
        Ask("resume", "PUT", f"{C}/resume"),
        Until(f"{C}/status", running),
        Ask("restart", "POST", f"{C}/restart"),
        Until(f"{C}/status", running),
        Ask("restart with false flags", "POST", f"{C}/restart?includeTasks=False&onlyFailed=false"),
        Until(f"{C}/status", running),
        Ask("restart a task", "POST", f"{C}/tasks/0/restart"),
        Until(f"{C}/status", running),
        Ask("restart no task", "POST", f"{C}/tasks/7/restart"),
        Ask("restart what failed", "POST", f"{C}/restart?includeTasks=true&onlyFailed=true"),
        Until(f"{C}/status", running),
        Ask("restart with tasks", "POST", f"{C}/restart?includeTasks=True"),
        Until(f"{C}/status", running),
    ]


def _offsets(file: str) -> list[Step]:
    offsets, partition = f"{C}/offsets", {"filename": file}

    def change(offset: object) -> object:
        return {"offsets": [{"partition": partition, "offset": offset}]}

    def twice(*each: object) -> object:
        return {"offsets": [{"partition": partition, "offset": offset} for offset in each]}

    def positions(body: Any) -> Any:
        return {str(entry["offset"]["position"]): 1 for entry in body["offsets"]}

    return [
        Until(offsets, lambda body: bool(body["offsets"])),
        Ask("get offsets", "GET", offsets),
        Ask("alter offsets while it runs", "PATCH", offsets, body=change({"position": 0})),
        Ask("reset offsets while it runs", "DELETE", offsets),
        Ask("stop", "PUT", f"{C}/stop"),
        Until(f"{C}/status", stopped),
        Ask("status while stopped", "GET", f"{C}/status"),
        Ask("get while stopped", "GET", C),
        Ask("alter offsets", "PATCH", offsets, body=change({"position": 0})),
        Ask("offsets after that", "GET", offsets),
        Ask("alter no offsets", "PATCH", offsets, body={"offsets": []}),
        Ask("alter nothing", "PATCH", offsets, body={}),
        Ask("alter offsets from broken JSON", "PATCH", offsets, raw=b"{"),
        Ask("alter offsets to a bad one", "PATCH", offsets, body=change({"position": "x"})),
        Ask("alter one offset twice", "PATCH", offsets, body=twice({"position": "x"}, {"position": 4})),
        Ask("the last of both counts", "GET", offsets, pick=positions),
        Ask("alter one offset twice, the last wrong", "PATCH", offsets, body=twice({"position": 4}, {"position": "x"})),
        Ask("the longest offset", "PATCH", offsets, body=change({"position": 2**63 - 1})),
        Ask("an offset beyond a long", "PATCH", offsets, body=change({"position": 2**63})),
        Ask("a field beyond a long", "PATCH", offsets, body=change({"position": 1, "more": 2**64})),
        Ask("offsets after those", "GET", offsets, pick=positions),
        Ask("delete an offset", "PATCH", offsets, body=change(None)),
        Ask("reset offsets", "DELETE", offsets),
        Ask("no offsets are left", "GET", offsets),
    ]


def _end(config: dict[str, str]) -> list[Step]:
    second = "/connectors/diff%20two"
    return [
        Ask("delete", "DELETE", C),
        Until("/connectors", lambda body: body == []),
        Ask("delete again", "DELETE", C),
        Ask("get what was deleted", "GET", C),
        Ask("create by PUT", "PUT", f"{second}/config", body=config),
        Until(f"{second}/status", running),
        Ask("get by an encoded name", "GET", f"{second}/"),
        Ask("delete by an encoded name", "DELETE", f"{second}"),
        Until("/connectors", lambda body: body == []),
        Ask(
            "create stopped",
            "POST",
            "/connectors",
            body={"name": "diff-three", "config": config, "initial_state": "Stopped"},
        ),
        Until("/connectors/diff-three/status", stopped),
        Ask("status of one created stopped", "GET", "/connectors/diff-three/status"),
        Ask("delete it", "DELETE", "/connectors/diff-three"),
    ]
