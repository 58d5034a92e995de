"""The login of the embedded Kafka: one user, whose password only the owner of the data folder can read.

Clients log in with SCRAM-SHA-512: neither side sends the password, and both prove that they know it. So another user of
this machine who listens on the broker's port while the broker is away learns nothing, and no client believes him. The
broker keeps what it needs for this in its metadata log. A controller has no log yet when its first client comes, so
only the broker itself, in the same process, logs in there, with PLAIN and a password that is derived from the first.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

USER: Final = "ringfence"
MECHANISM: Final = "SCRAM-SHA-512"
ITERATIONS: Final = 4096
"""The least that Kafka takes. More would only make guesses of a weak password slower; these are random."""
_PROTOCOL: Final = "SASL_PLAINTEXT"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class KafkaLogin:
    """password: hexadecimal, so that no file format needs to escape it."""

    password: str = field(repr=False)

    @classmethod
    def new(cls) -> "KafkaLogin":
        return cls(secrets.token_hex(24))

    @property
    def fingerprint(self) -> str:
        """Tells one password from another, and does not disclose it."""
        return hashlib.sha256(f"ringfence kafka login {self.password}".encode()).hexdigest()[:16]

    def java_settings(self) -> dict[str, str]:
        """Return the settings of Kafka's Java clients."""
        jaas = f'{_SCRAM} required username="{USER}" password="{self.password}";'
        return {"security.protocol": _PROTOCOL, "sasl.mechanism": MECHANISM, "sasl.jaas.config": jaas}

    def librdkafka_settings(self) -> dict[str, str]:
        """Return the settings of librdkafka's clients, such as kcat."""
        login = {"sasl.username": USER, "sasl.password": self.password}
        return {"security.protocol": _PROTOCOL, "sasl.mechanism": MECHANISM, **login}

    def storage_arguments(self) -> list[str]:
        """Return the arguments of `kafka-storage format` that create the user."""
        what = f"name={USER},iterations={ITERATIONS},password={self.password}"
        return ["--add-scram", f"{MECHANISM}=[{what}]"]

    def broker_settings(self, port: int, controller_port: int) -> dict[str, str]:
        """Return the settings of a broker that requires the login at both listeners."""
        return {
            **_listeners("CLIENT", port, controller_port),
            **self._controller_settings(),
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "listener.name.client.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.client.{MECHANISM.lower()}.sasl.jaas.config": self.java_settings()["sasl.jaas.config"],
        }

    def setup_settings(self, port: int, controller_port: int) -> dict[str, str]:
        """Return the settings of a broker that lets `setup_login` in, for as long as the user is not there yet."""
        return {
            **_listeners("SETUP", port, controller_port),
            **self._controller_settings(),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.setup.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.setup.plain.sasl.jaas.config": _both_sides("setup", self._derive("setup")),
        }

    def setup_login(self) -> dict[str, str]:
        """Return librdkafka's settings for a broker with `setup_settings`."""
        login = {"sasl.username": "setup", "sasl.password": self._derive("setup")}
        return {"security.protocol": _PROTOCOL, "sasl.mechanism": "PLAIN", **login}

    def _controller_settings(self) -> dict[str, str]:
        return {
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": _both_sides("controller", self._derive("controller")),
        }

    def _derive(self, purpose: str) -> str:
        return hmac.new(self.password.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def as_properties(settings: Mapping[str, str]) -> str:
    """Return the text of a properties file."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _both_sides(user: str, password: str) -> str:
    """Return the login of a listener where the broker is the server and the only client."""
    return f'{_PLAIN} required username="{user}" password="{password}" user_{user}="{password}";'


def _listeners(clients: str, port: int, controller_port: int) -> dict[str, str]:
    return {
        "listeners": f"{clients}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"{clients}://127.0.0.1:{port}",
        "inter.broker.listener.name": clients,
        "listener.security.protocol.map": f"{clients}:{_PROTOCOL},CONTROLLER:{_PROTOCOL}",
    }
