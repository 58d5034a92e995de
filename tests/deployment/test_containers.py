"""The image and docker-compose.yml for real: built, started in networks of their own, used, and stopped.

What is not ours in it (the image's bases, Kafka, Valkey, PostgreSQL) is made of Debian's packages and Kafka's jars.
"""

import json
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from ringfence.encryption import KEYS, new_key
from ringfence.local.jars import KAFKA_SERVER, KAFKA_VERSION, Coordinate, resolve
from tests.support import buildah, compose
from tests.support.buildah import SERVERS, Buildah
from tests.support.containers import Compose
from tests.support.dockerfile import copied
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

SECRETS: Final = (
    "RINGFENCE_TOKEN",
    "RINGFENCE_SECRET_KEY",
    "POSTGRES_PASSWORD",
    "REDIS_PASSWORD",
    "SPARK_SECRET",
    "KAFKA_ADMIN_PASSWORD",
    "KAFKA_WORKER_PASSWORD",
    "KAFKA_CONNECTORS_PASSWORD",
    "KAFKA_BACKUP_PASSWORD",
)
TOOLS = Coordinate("org.apache.kafka", "kafka-tools", KAFKA_VERSION)
BROKERS: Final = ("kafka-1", "kafka-2", "kafka-3")
TOPIC = "numbers"
VERIFIABLE = {"name": "verifiable", "connector.class": "VerifiableSource", "tasks.max": "2", "topic": TOPIC}

READ = f"""
from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.worker_config import WorkerConfig
for record in TopicLog(WorkerConfig.from_environment().connection(), "{TOPIC}").read_to_end(Deadline.after(60)):
    print((record.key or b"").decode(), (record.value or b"").decode())
"""
REST = """
import os, sys, urllib.request as u
rights = {"Authorization": "Bearer " + os.environ["RINGFENCE_TOKEN"]}
asked = u.Request("http://127.0.0.1:8083" + sys.argv[1], headers=rights)
print(u.urlopen(asked, timeout=30).read().decode())
"""
REACH = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


def waited_for(up: Compose, name: str) -> None:
    """As `docker compose up` waits for a service that others depend on."""
    service = up.services[name]
    if service["restart"] == "on-failure":
        code = eventually(lambda: (up.ended(name),) if up.ended(name) is not None else (), 300, name, pause=0.2)
        assert code == (0,), up.log(name).read_text()[-3000:]
    else:
        eventually(lambda: up.healthy(name), 300, lambda: up.log(name).read_text()[-3000:], pause=3)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """All of it, started in the order that `depends_on` asks for."""
    if (why := buildah.obstacle()) is not None:
        pytest.skip(f"The image is not built, as there is {why}")
    builder = Buildah()
    ours = builder.build()
    kafka = resolve("kafka-tools", (*KAFKA_SERVER, TOOLS))
    root = tmp_path_factory.mktemp("compose")
    services = compose.services()
    made = Compose(
        root,
        builder,
        images={
            service["image"]: ours if service["image"] == compose.OURS else SERVERS for service in services.values()
        },
        extra={key: [f"{kafka}:/opt/kafka/libs:ro"] for key in BROKERS},
        commands={**{key: ["kafka.sh"] for key in BROKERS}, "postgres": ["postgres.sh"]},
        secrets={**{name: secrets.token_hex(24) for name in SECRETS}, KEYS: new_key()},
    )
    try:
        started: set[str] = set()
        while waiting := made.services.keys() - started:
            ready = [name for name in sorted(waiting) if made.services[name].get("depends_on", {}).keys() <= started]
            for name in ready:
                made.up(name)
            for name in ready:
                waited_for(made, name)
            started |= set(ready)
        yield made
    finally:
        made.close()


def ran(up: Compose, name: str, *words: str) -> str:
    told = up.run(name, *words)
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-2000:]
    return told.stdout


def rest(up: Compose, path: str) -> Any:
    return json.loads(ran(up, "web", "python", "-c", REST, path))


def numbers(up: Compose) -> dict[str, list[int]]:
    """What each task has committed, in the topic's order; read with a worker's login."""
    found = defaultdict(list)
    reader = next(name for name in ("worker-1", "worker-2") if up.ended(name) is None)
    for line in ran(up, reader, "python", "-c", READ).splitlines():
        key, _, value = line.partition(" ")
        found[key].append(int(value))
    return dict(found)


def placed(up: Compose) -> list[str]:
    """On which worker each running task is."""
    status = rest(up, f"/connectors/{VERIFIABLE['name']}/status")
    assert status["connector"]["state"] == "RUNNING"
    return [task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING"]


def grace(up: Compose, name: str) -> float:
    """How long an engine waits before it kills."""
    return float(up.services[name].get("stop_grace_period", "10s").removesuffix("s"))


def test_a_connector_delivers_and_a_stopped_worker_hands_over(up: Compose) -> None:
    """`docker compose stop` of a worker: it ends within its period of grace, and the other one goes on."""
    create = f"cat > /tmp/c.json <<'END'\n{json.dumps({**VERIFIABLE, 'throughput': '100'})}\nEND\n"
    ran(up, "web", "sh", "-c", f"{create} exec ringfence connectors create --wait -f /tmp/c.json")
    workers = set(eventually(lambda: found if len(found := placed(up)) == 2 else [], 120, pause=1))
    eventually(lambda: len(found := numbers(up)) == 2 and min(map(len, found.values())) > 300, 120, pause=1)

    (stopped, *_) = sorted(workers)
    (other,) = {"worker-1", "worker-2"} - {stopped}
    began = time.monotonic()
    assert up.stop(stopped, grace(up, stopped)), "an engine would have killed it"
    print(f"{stopped} ended in {time.monotonic() - began:.1f} s")
    eventually(lambda: placed(up) == [other, other], 120, lambda: rest(up, "/connectors/verifiable/status"), pause=1)
    before = {key: len(found) for key, found in numbers(up).items()}
    eventually(lambda: all(len(found) > before[key] + 300 for key, found in numbers(up).items()), 120, pause=1)
    found = numbers(up)
    assert all(values == list(range(len(values))) for values in found.values()), "missing, twice or in disorder"
    assert up.healthy(other)

    up.up(stopped)
    waited_for(up, stopped)


def test_any_one_broker_may_be_away(up: Compose) -> None:
    for name in BROKERS:
        assert up.stop(name, grace(up, name)), "an engine would have killed it"
        before = {key: len(found) for key, found in numbers(up).items()}
        eventually(partial(more, up, before), 180, name, pause=1)
        up.up(name)
        waited_for(up, name)
    found = numbers(up)
    assert all(values == list(range(len(values))) for values in found.values()), "missing, twice or in disorder"


def more(up: Compose, before: dict[str, int]) -> bool:
    now = numbers(up)
    return all(len(now[key]) > count + 300 for key, count in before.items())


def reaches(up: Compose, name: str, host: str, port: int) -> bool:
    return up.run(name, "python", "-c", REACH, host, str(port)).returncode == 0


def test_executors_reach_kafka_and_no_store(up: Compose) -> None:
    for name in BROKERS:
        assert reaches(up, "spark-worker", name, 9092)
        inner = up.networks.addresses["brokers"][name]
        assert reaches(up, "kafka-setup", inner, 9091)
        for address in (inner, up.networks.addresses["cluster"][name]):
            assert not reaches(up, "spark-worker", address, 9091), "where `admin` may log in"
    for name, port in (("postgres", 5432), ("redis", 6379)):
        assert reaches(up, "web", name, port)
        assert not reaches(up, "spark-worker", name, port)
        assert not reaches(up, "spark-worker", up.networks.addresses["stores"][name], port)


def test_the_user_may_write_where_spark_works_and_not_our_code(up: Compose) -> None:
    for name in ("web", "worker-1", "spark-master", "spark-worker"):
        assert ran(up, name, "id", "-un").strip() == "ringfence"
        assert up.process(name).username() != "root"
        ran(
            up,
            name,
            "sh",
            "-c",
            "test -w /srv/spark && test ! -w /srv/ringfence && test ! -w /srv/ringfence/connectors",
        )


def test_nothing_else_is_in_the_image(up: Compose) -> None:
    """No tests, no state of the checkout, no secrets; and all of it is compiled."""
    there = set(ran(up, "web", "ls", "-A", "/srv/ringfence").split())
    assert there - {"ringfence.egg-info"} == {name.partition("/")[0] for name in copied()}
    sources = ran(up, "web", "find", "/srv/ringfence", "-name", "*.py", "-not", "-name", "manage.py").split()
    compiled = ran(up, "web", "find", "/srv/ringfence", "-name", "*.pyc").split()
    assert len(sources) == len(compiled) > 100


def test_all_of_ours_end_when_they_are_asked_to(up: Compose) -> None:
    """As by `docker compose down`: nobody is killed. Who needs others ends before them."""
    left = [name for name, what in up.services.items() if what["image"] == compose.OURS and up.ended(name) is None]
    assert {"web", "spark-master", "spark-worker", "spark-worker-2"} < set(left)
    for name in sorted(left, key=lambda name: (name != "web", name.startswith("spark"), "master" in name)):
        assert up.stop(name, grace(up, name)), f"{name} would have been killed"
