"""deploy/helm/ringfence: linted and rendered by the real `helm`, and held against Kubernetes' own schemas and our code.

It is installed on a real API server, where one is at hand. That pods come up is not shown.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ringfence import cli
from ringfence import file_checks as checked_files
from tests.support.api_server import ApiServer, running, what_is_lost
from tests.support.built_tools import TOOLS, find
from tests.support.compose import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.program

CHART = ROOT / "deploy" / "helm" / "ringfence"
CASES = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
VERSIONS = ("1.25.0", "1.31.0", kubernetes_validate.latest_version())
CUSTOM = {"ServiceMonitor", "PrometheusRule"}
"""Of the Prometheus operator: Kubernetes has no schema for them."""
Json = Any


def helm() -> str:
    return find("helm", "make chart builds it, where Go is")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, timeout=120, check=False)


def render(values: Path) -> subprocess.CompletedProcess[str]:
    # Without a version, a helm that `go install` has built takes Kubernetes 1.20.
    version = ("--kube-version", VERSIONS[-1])
    return run("template", "try", str(CHART), "--namespace", "connect", "-f", str(values), *version)


@cache
def rendered(case: str) -> list[Json]:
    done = render(CHART / "ci" / f"{case}-values.yaml")
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(case: str, *kinds: str) -> list[Json]:
    return [document for document in rendered(case) if document["kind"] in kinds]


def pods(case: str) -> list[tuple[str, Json]]:
    """The name of each workload, and its pods' template."""
    workloads = of_kind(case, "Deployment", "StatefulSet", "Job")
    return [(one["metadata"]["name"], one["spec"]["template"]) for one in workloads]


def containers(template: Json) -> list[Json]:
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]


def test_there_are_five_sets_of_values() -> None:
    assert len(CASES) == 5


@pytest.mark.parametrize("case", CASES)
def test_it_is_linted(case: str) -> None:
    done = run("lint", "--strict", str(CHART), "-f", str(CHART / "ci" / f"{case}-values.yaml"))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_each_object_is_valid(case: str, version: str) -> None:
    """Strictly: an unknown field is an error, as in server-side apply."""
    names = set()
    for document in rendered(case):
        names.add((document["kind"], document["metadata"]["name"]))
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, version.rpartition(".")[0], strict=True)
    assert len(names) == len(rendered(case))


def test_an_unknown_field_is_noticed() -> None:
    wrong = json.loads(json.dumps(of_kind("try", "Service")[0]))
    wrong["spec"]["selectors"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1].rpartition(".")[0], strict=True)


@pytest.mark.parametrize("case", CASES)
def test_no_pod_may_more_than_it_needs(case: str) -> None:
    """The restricted Pod Security Standard, and a root file system that nobody can write to."""
    for name, template in pods(case):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        token = spec["automountServiceAccountToken"]
        assert token == (case == "spark" and name.endswith("-worker")), name
        for container in containers(template):
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]


@pytest.mark.parametrize("case", CASES)
def test_selectors_meet_pods(case: str) -> None:
    labels = [template["metadata"]["labels"] for _, template in pods(case)]

    def meets(selector: Json, found: Json) -> bool:
        if not (selector.get("matchLabels") or {}).items() <= found.items():
            return False
        return all(found.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", []))

    for service in of_kind(case, "Service"):
        assert sum(service["spec"]["selector"].items() <= found.items() for found in labels) == 1
    for workload in of_kind(case, "Deployment", "StatefulSet"):
        assert meets(workload["spec"]["selector"], workload["spec"]["template"]["metadata"]["labels"])
    for budget in of_kind(case, "PodDisruptionBudget"):
        assert sum(meets(budget["spec"]["selector"], found) for found in labels) == 1
    for policy in of_kind(case, "NetworkPolicy"):
        component = policy["metadata"]["name"].rpartition("-")[2]
        met = [found for found in labels if meets(policy["spec"]["podSelector"], found)]
        assert met or component == "stores"
    services = {service["metadata"]["name"] for service in of_kind(case, "Service")}
    assert {one["spec"]["serviceName"] for one in of_kind(case, "StatefulSet")} <= services


@pytest.mark.parametrize("case", CASES)
def test_what_is_referred_to_is_there(case: str) -> None:
    """Secrets and config maps: of the chart, or named by the values."""
    made = {(one["kind"], one["metadata"]["name"]) for one in rendered(case)}
    named = (CHART / "ci" / f"{case}-values.yaml").read_text()
    for _, template in pods(case):
        text = json.dumps(template)
        for name in re.findall(r'"secretKeyRef": {[^}]*"name": "([^"]+)"', text):
            assert ("Secret", name) in made or re.search(rf"Secret: {name}\b", named), name
        for name in re.findall(r'"configMap": {[^}]*"name": "([^"]+)"', text):
            assert ("ConfigMap", name) in made


@pytest.mark.parametrize("case", CASES)
def test_commands_and_variables_are_those_of_the_code(case: str) -> None:
    known = set(re.findall(r"\b(?:RINGFENCE|CONNECT)_[A-Z_]+", (ROOT / "docs" / "operations.md").read_text()))
    known |= set(re.findall(r"RINGFENCE_[A-Z_]+", (ROOT / "platform" / "ringfence" / "settings.py").read_text()))
    known |= {"RINGFENCE_ENCRYPTION_KEYS"}
    for _name, template in pods(case):
        for container in containers(template):
            variables = [each["name"] for each in container.get("env", [])]
            assert len(variables) == len(set(variables))
            for variable in variables:
                assert not variable.startswith("RINGFENCE_") or variable in known, variable
            if container["name"] in ("web", "worker"):
                words = [word.replace("$(POD_NAME)", "w-0") for word in container["args"]]
                cli.parser_for(words).parse_args(words)
            if container["name"] == "worker":
                assert not {"RINGFENCE_SECRET_KEY", "RINGFENCE_TOKEN"} & set(variables), "they are for web only"
                for probe in ("startupProbe", "livenessProbe"):
                    # Kubernetes expands no variable in a probe's command, so a shell does.
                    shell, option, line = container[probe]["exec"]["command"]
                    assert (shell, option) == ("sh", "-c")
                    words = shlex.split(line.replace("$POD_NAME", "w-0"))[2:]
                    assert cli.parser_for(words).parse_args(words).check


@pytest.mark.parametrize("case", CASES)
def test_the_workers_settings_are_read_as_meant(case: str, tmp_path: Path) -> None:
    (config,) = [one for one in of_kind(case, "ConfigMap") if one["metadata"]["name"].endswith("-worker")]
    file = tmp_path / "worker.properties"
    file.write_text(config["data"]["worker.properties"])
    (document,) = checked_files.read(file)
    assert document.what is checked_files.What.WORKER
    values = yaml.safe_load((CHART / "ci" / f"{case}-values.yaml").read_text())
    assert document.settings["bootstrap.servers"] == values["kafka"]["bootstrapServers"]
    for name, value in values.get("workerConfig", {}).items():
        assert document.settings[name] == str(value)
    if case == "spark":
        assert document.settings["spark.master"] == "k8s://https://kubernetes.default.svc"
        (account,) = of_kind(case, "RoleBinding")
        assert account["subjects"][0]["name"] == document.settings["spark.kubernetes.authenticate.serviceAccountName"]


def test_no_secret_is_in_a_config_map() -> None:
    for case in CASES:
        secrets = [value for one in of_kind(case, "Secret") for value in one["data"].values()]
        text = json.dumps(of_kind(case, "ConfigMap", "Deployment", "StatefulSet"))
        assert not [value for value in secrets if value in text]
        for each in of_kind(case, "Secret"):
            if each["metadata"]["name"].endswith("-secrets"):
                assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_the_generated_encryption_key_is_one() -> None:
    from base64 import b64decode

    from ringfence.encryption import Keyring

    (secret,) = [one for one in of_kind("try", "Secret") if one["metadata"]["name"].endswith("-secrets")]
    keys = b64decode(secret["data"]["encryption-keys"]).decode()
    assert len(Keyring.from_environment({"RINGFENCE_ENCRYPTION_KEYS": keys}).keys) == 1
    assert len(b64decode(secret["data"]["token"])) >= 24


def test_migrations_come_first() -> None:
    """As a hook where the database is there before the release, and else before the web process."""
    for case in CASES:
        hooks = [one for one in of_kind(case, "Job") if "helm.sh/hook" in one["metadata"].get("annotations", {})]
        (web,) = [template for name, template in pods(case) if name.endswith("-web")]
        inside = [one["command"][1:3] for one in web["spec"].get("initContainers", [])]
        assert (len(hooks), inside) == ((0, [["manage.py", "migrate"]]) if case == "try" else (1, []))
        for hook in hooks:
            assert hook["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
            # What it needs has to be there before the release, too.
            assert "-secrets" not in json.dumps(hook)


def test_rules_and_dashboards_are_those_of_deploy() -> None:
    (rule,) = of_kind("production", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    found = {
        file: json.loads(text)
        for one in of_kind("production", "ConfigMap")
        for file, text in one["data"].items()
        if file.endswith(".json")
    }
    ours = {f"dashboard-{path.name}": json.loads(path.read_text()) for path in (ROOT / "deploy" / "grafana").iterdir()}
    assert found == ours


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({}, "bootstrapServers"),
        ({"kafka": {"bootstrapServers": "kafka"}}, "bootstrapServers"),
        ({"kafka": {"bootstrapServers": "kafka:9092"}}, "database: set existingSecret"),
        (
            {
                "kafka": {"bootstrapServers": "kafka:9092"},
                "database": {"existingSecret": "x", "embedded": {"enabled": True}},
            },
            "either existingSecret or embedded",
        ),
        (
            {
                "kafka": {"bootstrapServers": "kafka:9092"},
                "database": {"existingSecret": "x"},
                "redis": {"embedded": {"enabled": False}},
            },
            "redis: set existingSecret",
        ),
        (
            {"kafka": {"bootstrapServers": "kafka:9092"}, "database": {"existingSecrets": "x"}},
            "existingSecrets",
        ),
    ],
)
def test_values_that_cannot_work_are_refused(values: Json, word: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = render(file)
    assert done.returncode != 0
    assert word in done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server that knows the Prometheus operator's objects."""
    definitions = [*(TOOLS / "crds").glob("*.yaml")]
    if not definitions:
        pytest.skip("no definitions of the Prometheus operator's resources: make chart-server makes them")
    with running(tmp_path_factory.mktemp("server")) as made:
        for file in definitions:
            definition = yaml.safe_load(file.read_text())
            if definition["spec"]["names"]["kind"] in CUSTOM:
                answer = made.apply(definition, "")
                assert answer.is_success, answer.text
                name, version = definition["metadata"]["name"], definition["spec"]["versions"][0]["name"]
                eventually(lambda name=name, version=version: _is_served(made, name, version), 60, name, pause=0.1)  # type: ignore[misc]
        yield made


def _is_served(server: ApiServer, name: str, version: str) -> bool:
    plural, _, group = name.partition(".")
    served = server.get("/apis").get("groups", [])
    return group in [each["name"] for each in served] and plural in [
        each["name"] for each in server.get(f"/apis/{group}/{version}")["resources"]
    ]


def _new_namespace(server: ApiServer, name: str) -> None:
    """One with the strictest Pod Security Standard. A workload with other pods is stored, with a warning."""
    rules = {f"pod-security.kubernetes.io/{what}": "restricted" for what in ("enforce", "warn")}
    answer = server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": rules}}, name)
    assert answer.is_success, answer.text


@pytest.mark.parametrize("case", CASES)
def test_an_api_server_takes_it_all(server: ApiServer, case: str) -> None:
    """By server-side apply, strictly: each object is stored as it was sent, without a warning."""
    namespace = f"connect-{case}"
    _new_namespace(server, namespace)
    for document in rendered(case):
        name = f"{document['kind']} {document['metadata']['name']}"
        answer = server.apply(document, namespace)
        assert answer.is_success, f"{name}: {answer.text}"
        assert "warning" not in answer.headers, f"{name}: {answer.headers['warning']}"
        assert what_is_lost(document, answer.json()) == [], name
        again = server.apply(document, namespace)
        assert again.json()["metadata"]["resourceVersion"] == answer.json()["metadata"]["resourceVersion"], name
    for workload in of_kind(case, "Deployment", "StatefulSet", "Job"):
        name, template = workload["metadata"]["name"], workload["spec"]["template"]
        claims = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])]
        mounts = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        spec = {**template["spec"], "volumes": [*template["spec"].get("volumes", []), *mounts]}
        metadata = {**template["metadata"], "name": name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        answer = server.try_to_create(pod, namespace)
        assert answer.status_code == 201, f"{name}: {answer.text}"


def test_the_api_server_refuses_what_is_wrong(server: ApiServer) -> None:
    _new_namespace(server, "wrong")
    wrong = json.loads(json.dumps(of_kind("try", "Service")[0]))
    wrong["spec"]["selectors"] = {}
    answer = server.apply(wrong, "wrong")
    assert answer.status_code in (400, 422, 500), answer.text
    assert "selectors" in answer.text
    monitor = json.loads(json.dumps(of_kind("production", "ServiceMonitor")[0]))
    monitor["spec"]["endpoint"] = []
    answer = server.apply(monitor, "wrong")
    assert not answer.is_success
    assert "spec.endpoint" in answer.text
    name, template = pods("try")[0]
    template = json.loads(json.dumps(template))
    template["spec"]["securityContext"]["runAsNonRoot"] = False
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": name}}
    assert server.try_to_create(pod, "wrong").status_code == 403


def test_secrets_survive_an_upgrade(server: ApiServer, tmp_path: Path) -> None:
    """Of a real installation: the encryption keys above all, without which the database cannot be read."""
    _new_namespace(server, "upgraded")
    server.write_kubeconfig(tmp_path / "kubeconfig")
    where = ("--namespace", "upgraded", "--kubeconfig", str(tmp_path / "kubeconfig"), "--no-hooks")
    values = ("-f", str(CHART / "ci" / "try-values.yaml"))

    def secrets() -> dict[str, Json]:
        found = server.get("/api/v1/namespaces/upgraded/secrets")["items"]
        return {each["metadata"]["name"]: each["data"] for each in found if each["type"] == "Opaque"}

    done = run("install", "try", str(CHART), *where, *values)
    assert done.returncode == 0, done.stderr
    before = secrets()
    assert len(before) == 3
    done = run("upgrade", "try", str(CHART), *where, *values, "--set", "worker.replicas=2")
    assert done.returncode == 0, done.stderr
    assert secrets() == before
    path = "/apis/apps/v1/namespaces/upgraded/statefulsets/try-ringfence-worker"
    assert server.get(path)["spec"]["replicas"] == 2
    done = run("uninstall", "try", *where)
    assert done.returncode == 0, done.stderr
    assert secrets() == {"try-ringfence-secrets": before["try-ringfence-secrets"]}
