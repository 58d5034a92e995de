"""The addresses of the platform's own listeners, as the settings name them (`connectors.own_listeners`)."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from ringfence.connectors.sdk.egress import EGRESS_DENY
from ringfence.connectors.sdk.worker_limits import names
from ringfence.spark_settings import MASTER

_REDIS: Final = ("RINGFENCE_REDIS_URL", "redis://127.0.0.1:6379/0", 6379)
_SENTINEL_PORT: Final = 26379
_WEB: Final = "RINGFENCE_HTTP"
_MASTER_PORTS: Final = (8080, 6066)
"""A standalone master's page, and its server for submissions, by default."""
_DRIVER_PORTS: Final = ("spark.driver.port", "spark.driver.blockManager.port", "spark.ui.port")
_EVERYWHERE: Final = ("", "0.0.0.0", "[::]", "::")  # noqa: S104 - they are recognised, not bound


def find_own_listeners(settings: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return `host:port` of web, Redis and Spark, and the entries of `egress.deny`. settings: the worker's;
    environment: of the process.
    """
    listeners = [*_redis(environment), *_web(environment), *_spark(settings), *names(settings.get(EGRESS_DENY, ""))]
    return tuple(dict.fromkeys(listeners))


def _redis(environment: Mapping[str, str]) -> Iterator[str]:
    name, default, port = _REDIS
    for url in (environment.get(name) or default).split(";"):
        yield from _of_url(url, _SENTINEL_PORT if url.strip().startswith("sentinel:") else port)


def _web(environment: Mapping[str, str]) -> Iterator[str]:
    host, _, port = environment.get(_WEB, "").strip().rpartition(":")
    if port.isdecimal():
        hosts = ("127.0.0.0/8", "[::1]") if host in _EVERYWHERE else (host,)
        yield from (f"{each}:{port}" for each in hosts)


def _spark(settings: Mapping[str, str]) -> Iterator[str]:
    master = settings.get(MASTER, "").strip()
    if master.startswith("spark://"):
        for server in master.removeprefix("spark://").split(","):
            host = server.strip().rpartition(":")[0]
            yield server.strip()
            yield from (f"{host}:{port}" for port in _MASTER_PORTS)
    elif master.startswith("k8s://"):
        address = master.removeprefix("k8s://")
        yield from _of_url(address if "://" in address else f"https://{address}", 443)
    if host := settings.get("spark.driver.host", "").strip():
        yield from (f"{host}:{port}" for name in _DRIVER_PORTS if (port := settings.get(name, "").strip()))


def _of_url(url: str, default: int) -> Iterator[str]:
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port or default
    except ValueError:
        return
    if host:
        yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
