"""What the `broker` fixtures hand out."""

import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ringfence.local.jars import KAFKA_SERVER, KAFKA_VERSION, once, resolve
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port

_FEATURES = "bootstrap.checkpoint"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker that a test shares with others: use names of your own, and leave it running."""

    bootstrap: str


def new_kafka(root: Path, **properties: str) -> EmbeddedKafka:
    """A broker that is not started yet, on free ports, with everything it writes under `root`.

    Properties are given with `_` for `.`: `new_kafka(path, transaction_max_timeout_ms="60000")`. Records that a test
    gives a time of years ago stay.
    """
    settings = {"log.retention.ms": "-1"} | {key.replace("_", "."): value for key, value in properties.items()}
    format_storage(root / "kafka", {"cluster_id": _new_id()})
    return EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log", properties=settings, short_lived=True)


def format_storage(data: Path, identity: Mapping[str, str], node: str = "1") -> None:
    """Write what Kafka's own tool writes for a broker without a login: for each of them, it takes a JVM.

    identity: the cluster's id, and the controller's port, unless any will do.
    """
    logs = data / "logs"
    logs.mkdir(parents=True)
    (data / "identity.json").write_text(json.dumps(dict(identity)))
    meta = {"version": "1", "cluster.id": identity["cluster_id"], "node.id": node, "directory.id": _new_id()}
    (logs / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in meta.items()))
    shutil.copyfile(_formatted() / _FEATURES, logs / _FEATURES)


def _formatted() -> Path:
    """A folder with the features of a new cluster, as Kafka's tool writes them: once on this machine."""
    resolve("kafka", KAFKA_SERVER)  # not within `once`, which has a lock
    return once(f"kafka-storage-{KAFKA_VERSION}", _format)


def _format(scratch: Path) -> Path:
    kafka = EmbeddedKafka(scratch / "kafka", free_port(), scratch / "log", short_lived=True)
    kafka.launch()
    kafka.kill()
    folder = scratch / "storage"
    folder.mkdir()
    return shutil.copyfile(kafka.data / "logs" / _FEATURES, folder / _FEATURES).parent


def _new_id() -> str:
    """As Kafka makes ids: it takes none that begins with a dash for one."""
    return "A" + secrets.token_urlsafe(16)[1:]


@contextmanager
def running_kafka(root: Path, **properties: str) -> Iterator[EmbeddedKafka]:
    """A broker as of `new_kafka`, until the end of the block. Nobody can read its data afterwards."""
    kafka = new_kafka(root, **properties)
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()


def login(user: str, password: str = "") -> str:
    """Java's setting for a login by a password, which is the user's name unless it is given."""
    return f'{_MODULE} required username="{user}" password="{password or user}";'


def with_users(*users: str) -> Mapping[str, str]:
    """Properties of a broker that asks for a login and denies these users what is not granted. "root" may do all."""
    passwords = " ".join(f'user_{user}="{user}"' for user in ("root", *users))
    return {
        "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl_enabled_mechanisms": "PLAIN",
        "sasl_mechanism_inter_broker_protocol": "PLAIN",
        "listener_name_plaintext_plain_sasl_jaas_config": f"{login('root')[:-1]} {passwords};",
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:root;User:ANONYMOUS",
    }
