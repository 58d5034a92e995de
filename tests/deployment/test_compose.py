"""docker-compose.yml against the code that it starts, without a Docker engine."""

import logging
import re
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pyspark
import pytest
from django.core.management import load_command_class
from django.urls import resolve

from deploy import kafka_setup
from ringfence import cli, encryption, worker_config
from ringfence.connectors.sdk.secret_names import secret_by_name
from ringfence.environment import database, is_loopback
from ringfence.spark_settings import spark_settings
from ringfence.worker_config import WorkerConfig
from tests.support import database as _database  # noqa: F401 - sets Django up
from tests.support.compose import (
    OURS,
    ROOT,
    Service,
    command,
    filled,
    kafka_properties,
    load,
    networks,
    option,
    services,
    variables,
)
from tests.support.logs import own_messages

SERVICES = services()
ALL = pytest.mark.parametrize("name", sorted(SERVICES))
HEALTHY, ENDED = "service_healthy", "service_completed_successfully"
SPARK = {name for name, service in SERVICES.items() if service.get("entrypoint", [""])[0] == "spark-class"}
BROKERS = [name for name in sorted(SERVICES) if SERVICES[name]["image"].startswith("apache/kafka:")]
WORKERS = {name for name, service in SERVICES.items() if service.get("command", [""])[0] == "worker"}

NEEDED = {
    "web": {
        "RINGFENCE_DATABASE_URL",
        "RINGFENCE_REDIS_URL",
        "RINGFENCE_ENCRYPTION_KEYS",
        "RINGFENCE_HTTP",
        "RINGFENCE_SECRET_KEY",
        "RINGFENCE_TOKEN",
    },
    "migrate": {"RINGFENCE_DATABASE_URL"},
    "kafka-setup": {
        "KAFKA_ADMIN_PASSWORD",
        "KAFKA_WORKER_PASSWORD",
        "KAFKA_CONNECTORS_PASSWORD",
        "KAFKA_BACKUP_PASSWORD",
    },
    **{
        name: {
            "RINGFENCE_DATABASE_URL",
            "RINGFENCE_REDIS_URL",
            "RINGFENCE_ENCRYPTION_KEYS",
            "RINGFENCE_WORKER_CONFIG",
            "CONNECT_SPARK_DRIVER_HOST",
            "CONNECT_SPARK_AUTHENTICATE_SECRET",
            "CONNECT_SASL_JAAS_CONFIG",
            "CONNECT_PRODUCER_SASL_JAAS_CONFIG",
        }
        for name in WORKERS
    },
}
"""What each of them cannot do its work without. A secret that is not here is one that it need not know."""


def environment(service: Service) -> dict[str, str]:
    found: dict[str, str] = service.get("environment", {})
    return found


def once(service: Service) -> bool:
    """Runs to its end."""
    return bool(service["restart"] == "on-failure")


@ALL
def test_each_waits_for_what_it_needs_and_says_how_it_is(name: str) -> None:
    service = SERVICES[name]
    for other, how in service.get("depends_on", {}).items():
        assert how["condition"] == (ENDED if once(SERVICES[other]) else HEALTHY), other
    if once(service):
        return
    assert service["restart"] == "unless-stopped"
    health = service["healthcheck"]
    assert health["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= health.keys()


def test_the_roles_are_all_there() -> None:
    assert len(BROKERS) == 3
    assert {
        "kafka-setup",
        "redis",
        "postgres",
        "migrate",
        "web",
        "spark-master",
        "spark-worker",
    } <= SERVICES.keys()
    assert len(WORKERS) >= 2
    assert SERVICES["spark-worker"]["deploy"]["replicas"] >= 2
    assert len({option(command(SERVICES[name]), "--id") for name in WORKERS}) == len(WORKERS), "an id each"
    for name in WORKERS:
        assert {"kafka-setup", "redis", "migrate", "spark-master", "spark-worker"} <= SERVICES[name][
            "depends_on"
        ].keys()


def jars_hold(main: str) -> bool:
    """Whether Spark has the class."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
    with zipfile.ZipFile(jar) as found:
        return f"{main.replace('.', '/')}.class" in found.namelist()


def check_command(words: list[str]) -> None:
    """Raises for one that the image could not run."""
    match words:
        case ["ringfence", *arguments]:
            cli.parser_for(arguments).parse_args(arguments)
        case ["spark-class", main, *arguments]:
            assert (Path(pyspark.__file__).parent / "bin" / "spark-class").exists()
            assert jars_hold(main)
            known = {"--host", "--port", "--webui-port", "--cores", "--memory"}
            assert {word for word in arguments if word.startswith("-")} <= known
        case ["python", "manage.py", name, *arguments]:
            assert (ROOT / "manage.py").exists()
            load_command_class("django.core", name).create_parser("manage.py", name).parse_args(arguments)
        case ["python", "-c", code]:
            compile(code, "healthcheck", "exec")
        case ["python", path, _, access]:
            mounted = {there: here for here, there, _ in (one.split(":") for one in SERVICES["kafka-setup"]["volumes"])}
            assert {path, access} == mounted.keys()
            assert kafka_setup.parse((ROOT / mounted[access]).read_text()).keys() == {"worker", "connectors", "backup"}
        case _:
            raise AssertionError(f"nobody knows {words}")


@pytest.mark.parametrize("name", sorted(name for name, service in SERVICES.items() if service["image"] == OURS))
def test_what_runs_in_our_image_is_there(name: str) -> None:
    service = SERVICES[name]
    assert service["build"] == "."
    check_command(command(service))
    if "healthcheck" in service:
        check_command(service["healthcheck"]["test"][1:])


def test_health_checks_ask_what_is_listened_to() -> None:
    def asked(name: str) -> tuple[int, str]:
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/[^']*)'", " ".join(SERVICES[name]["healthcheck"]["test"]))
        assert found is not None
        return int(found[1]), found[2]

    port, path = asked("web")
    assert resolve(path).route == "health"
    assert environment(SERVICES["web"])["RINGFENCE_HTTP"] == f"0.0.0.0:{port}"
    assert SERVICES["web"]["ports"] == [f"127.0.0.1:{port}:{port}"], "and nobody else is published"
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["web"]
    for name in SPARK:
        assert asked(name) == (int(option(command(SERVICES[name]), "--webui-port")), "/json/")
    for name in WORKERS:
        words = command(SERVICES[name])
        assert SERVICES[name]["healthcheck"]["test"][1:] == [*words[: words.index("--slots")], "--check"]


def names_that_the_code_reads() -> set[str]:
    found: set[str] = {encryption.KEYS, encryption.KEY_FILE}
    for path in (ROOT / "platform" / "ringfence").rglob("*.py"):
        found |= set(re.findall(r"""environ(?:\.get\(|\[)\s*"(RINGFENCE_\w+)""", path.read_text()))
        found |= set(re.findall(r"""env(?:\.get\(|\[)\s*"(RINGFENCE_\w+)""", path.read_text()))
    return found


@ALL
def test_each_variable_is_read_by_somebody_and_the_needed_ones_are_given(name: str) -> None:
    given = environment(SERVICES[name])
    assert {key for key in given if key.startswith("RINGFENCE_")} <= names_that_the_code_reads()
    if name in NEEDED:
        assert given.keys() == NEEDED[name]
    elif name in SPARK:
        assert all(key.startswith(("SPARK_", "_SPARK_")) for key in given), "executors know no secret of the platform's"
        assert {name for name, _ in variables(str(given))} == {"SPARK_SECRET"}
        for key in ("SPARK_MASTER_OPTS", "SPARK_WORKER_OPTS"):
            if key in given:
                assert {"-Dspark.authenticate=true", "-Dspark.network.crypto.enabled=true"} <= set(given[key].split())
    assert all(isinstance(value, str) for value in given.values()), "YAML's numbers and booleans are spelt in its way"


def test_addresses_lead_to_services() -> None:
    for name, service in SERVICES.items():
        given = environment(service)
        for key, scheme in (("RINGFENCE_DATABASE_URL", "postgres"), ("RINGFENCE_REDIS_URL", "redis")):
            if key in given:
                address = urlsplit(filled(given[key]))
                assert address.scheme == scheme
                assert set(SERVICES[str(address.hostname)]["networks"]) & set(service["networks"]), name
    settings = database(filled(environment(SERVICES["web"])["RINGFENCE_DATABASE_URL"]))
    theirs = environment(SERVICES["postgres"])
    assert (settings["USER"], settings["NAME"]) == (theirs["POSTGRES_USER"], theirs["POSTGRES_DB"])
    assert not is_loopback(environment(SERVICES["web"])["RINGFENCE_HTTP"]), "else nobody would be asked to log in"


@pytest.mark.parametrize("name", BROKERS)
def test_kafka_asks_everybody_for_a_login_and_denies_what_is_not_granted(name: str) -> None:
    """What is listened to without encryption of the password is in a network of the brokers' own. See
    test_kafka_access.py, too.
    """
    service = SERVICES[name]
    given = kafka_properties(environment(service))
    addresses = dict(one.split("://") for one in given["listeners"].split(","))
    protocols = dict(one.split(":") for one in given["listener.security.protocol.map"].split(","))
    assert protocols == dict.fromkeys(addresses, "SASL_PLAINTEXT")
    (alias,) = networks(service)["brokers"]
    for listener, address in addresses.items():
        mechanism = given[f"listener.name.{listener.lower()}.sasl.enabled.mechanisms"]
        assert f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config" in given
        assert address.startswith(f"{alias}:") if mechanism == "PLAIN" else mechanism == "SCRAM-SHA-512"
    # Kafka's image wants a file of logins where an advertised listener's name begins so.
    assert "SASL_" not in given["advertised.listeners"]
    assert given["authorizer.class.name"] == "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert given["allow.everyone.if.no.acl.found"] == "false"
    assert given["super.users"] == "User:admin"
    assert addresses["BROKER"] in SERVICES["kafka-setup"]["entrypoint"][2].split(",")
    check = SERVICES[name]["healthcheck"]["test"][-1]
    assert addresses["BROKER"] in check.replace("$$KAFKA_NODE_ID", given["node.id"])
    assert set(re.findall(r"\$\$(\w+)", check)) <= environment(service).keys()


def test_any_one_broker_may_be_away() -> None:
    """They are one cluster and one quorum of controllers; each of their topics is on all, and written to two."""
    all_given = [kafka_properties(environment(SERVICES[name])) for name in BROKERS]
    voters = {
        f"{given['node.id']}@{dict(one.split('://') for one in given['listeners'].split(','))['CONTROLLER']}"
        for given in all_given
    }
    assert len(voters) == 3
    for name, given in zip(BROKERS, all_given, strict=True):
        assert set(given["controller.quorum.voters"].split(",")) == voters
        assert f"CLIENT://{name}:9092" in given["advertised.listeners"].split(",")
        for key, value in given.items():
            if key.endswith("replication.factor"):
                assert value == "3", key
            if key.endswith(("min.isr", "min.insync.replicas")):
                assert value == "2", key
        assert {
            "default.replication.factor",
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
            "min.insync.replicas",
            "transaction.state.log.min.isr",
        } <= given.keys()
    assert len({environment(SERVICES[name])["CLUSTER_ID"] for name in BROKERS}) == 1


def test_no_secret_stands_in_the_file() -> None:
    example = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
    asked = variables((ROOT / "docker-compose.yml").read_text())
    assert {name for name, _ in asked} == example.keys()
    assert all(words for _, words in asked), "without a value compose says where to look"
    assert not any(example.values())
    for service in SERVICES.values():
        for key, value in environment(service).items():
            if key.endswith("JAAS_CONFIG"):
                words = re.findall(r'(?:password|user_\w+)="([^"]*)"', value)
                assert all(re.fullmatch(r"\$\{\w+:\?[^}]*\}", word) for word in words), key
                assert words or value.endswith("ScramLoginModule required;"), key
            elif secret_by_name(key):
                assert re.fullmatch(r"\$\{\w+:\?[^}]*\}", value), key
            if (password := re.search(r"://[^/@:]*:([^@]*)@", value)) is not None:
                assert re.fullmatch(r"\$\{\w+:\?[^}]*\}", password[1]), key
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()


@ALL
def test_images_are_pinned(name: str) -> None:
    image = SERVICES[name]["image"]
    assert image == OURS or re.search(r":\d+\.\d+(\.\d+)?@sha256:[0-9a-f]{64}$", image), image


def test_volumes_and_networks_are_declared_and_used() -> None:
    declared = load()
    volumes = [volume for service in SERVICES.values() for volume in service.get("volumes", [])]
    named = {volume.partition(":")[0] for volume in volumes if not volume.startswith((".", "/"))}
    assert named == declared["volumes"].keys()
    for volume in volumes:
        if volume.startswith("."):
            here, _, mode = volume.split(":")
            assert (ROOT / here).is_file()
            assert mode == "ro"
    kept = {name: environment(SERVICES[name])["KAFKA_LOG_DIRS"] for name in BROKERS}
    for name, where in {**kept, "postgres": "/var/lib/postgresql/data"}.items():
        assert SERVICES[name]["volumes"] == [f"{name}:{where}"], "what has to survive"
    used = {name for service in SERVICES.values() for name in networks(service)}
    assert used == declared["networks"].keys()
    for name in ("stores", "brokers"):
        assert declared["networks"][name]["internal"] is True
    inside = {name for name, service in SERVICES.items() if "brokers" in networks(service)}
    assert inside == {*BROKERS, "kafka-setup"}, "`admin` may log in there"
    assert [*networks(SERVICES["kafka-setup"])] == ["brokers"]
    for name in SPARK:
        assert [*networks(SERVICES[name])] == ["cluster"], "tasks reach Kafka and the drivers, and no database"


@pytest.fixture(params=sorted(WORKERS))
def worker(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> tuple[Service, WorkerConfig]:
    service = SERVICES[request.param]
    given = environment(service)
    (mounted,) = (volume.split(":") for volume in service["volumes"])
    assert mounted[1] == given["RINGFENCE_WORKER_CONFIG"]
    with caplog.at_level(logging.INFO):
        config = WorkerConfig.from_environment({**given, "RINGFENCE_WORKER_CONFIG": str(ROOT / mounted[0])})
    assert not own_messages(caplog)
    return service, config


def test_the_workers_settings_are_sound(worker: tuple[Service, WorkerConfig]) -> None:
    service, config = worker
    known = worker_config._DEFAULTS.keys()
    logins = {"security.protocol", "sasl.mechanism", "sasl.jaas.config", "producer.sasl.jaas.config"}
    followed = {"events.storage.replication.factor", "events.storage.partitions"}  # the status topic's
    assert not [key for key in config.settings if key not in known | logins | followed and not key.startswith("spark.")]
    assert logins <= config.settings.keys()
    assert config.mode == "enabled"
    assert config.bootstrap.split(",") == [f"{name}:9092" for name in BROKERS]
    assert {value for key, value in config.settings.items() if key.endswith("replication.factor")} == {"3"}
    assert service["hostname"] == config.settings["spark.driver.host"]
    assert "cluster" in service["networks"], "where executors look for it"


def test_the_tasks_run_on_the_spark_cluster(worker: tuple[Service, WorkerConfig]) -> None:
    _, config = worker
    words = command(SERVICES["spark-master"])
    master = f"spark://{option(words, '--host')}:{option(words, '--port')}"
    assert config.settings["spark.master"] == master
    assert SERVICES["spark-master"]["hostname"] == option(words, "--host")
    assert master in command(SERVICES["spark-worker"])


def test_the_cluster_has_room_for_all_workers(worker: tuple[Service, WorkerConfig]) -> None:
    """Also when one of the Spark workers is lost: every task keeps a core."""
    _, config = worker
    words, machines = command(SERVICES["spark-worker"]), int(SERVICES["spark-worker"]["deploy"]["replicas"])
    cores, memory = int(option(words, "--cores")), int(option(words, "--memory").removesuffix("g")) * 1024
    slots = [int(option(command(SERVICES[name]), "--slots")) for name in WORKERS]
    wanted = [spark_settings(config.settings, count) for count in slots]
    assert cores * machines >= sum(int(settings["spark.cores.max"]) for settings in wanted)
    assert cores * (machines - 1) >= sum(slots)
    of_each, megabytes = (
        int(wanted[0]["spark.executor.cores"]),
        int(wanted[0]["spark.executor.memory"].removesuffix("m")),
    )
    assert memory >= cores // of_each * megabytes


def test_a_broken_command_is_noticed() -> None:
    """The checks above see something."""
    for broken in (["ringfence", "wrker"], ["ringfence", "worker", "--slots", "4"], ["spark-class", "org.apache.No"]):
        with pytest.raises((SystemExit, AssertionError)):
            check_command(broken)
