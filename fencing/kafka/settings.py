"""How to reach a cluster, as plain data that travels to executors as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_JAVA_TO_PYTHON = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster and the credentials for it. `settings`: librdkafka's names, security only."""

    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_id: str = "ringfence"

    def librdkafka(self, **more: object) -> dict[str, object]:
        """A librdkafka configuration; keywords with `_` for `.` are added."""
        base: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            # A broker that restarts must be found again within a second, not after the default ten.
            "reconnect.backoff.max.ms": 1000,
            "socket.keepalive.enable": True,
            # Connection trouble is reported by the calls that suffer from it, once, and not by each retry.
            "log.connection.close": False,
            **self.settings,
        }
        return {**base, **{key.replace("_", "."): value for key, value in more.items()}}

    def kafka_python(self) -> dict[str, object]:
        """The same for kafka-python."""
        known = {_JAVA_TO_PYTHON[key]: value for key, value in self.settings.items() if key in _JAVA_TO_PYTHON}
        return {"bootstrap_servers": self.bootstrap.split(","), "client_id": self.client_id, **known}

    def as_json(self) -> dict[str, object]:
        """The inverse of `from_json`."""
        return {"bootstrap": self.bootstrap, "settings": dict(self.settings), "client_id": self.client_id}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "Connection":
        settings = value["settings"]
        if not isinstance(settings, Mapping):
            raise TypeError("settings: an object of strings is expected")
        return cls(str(value["bootstrap"]), dict(settings), str(value["client_id"]))
