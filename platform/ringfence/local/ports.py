"""The ports of this machine: which are free, and which accept connections."""

import argparse
import socket
from contextlib import ExitStack

Address = tuple[str, int]


def http_address(text: str) -> Address:
    """Parse `127.0.0.1:8083`, `:8083` (loopback), `8083` (loopback) or `[::1]:8083`; for argparse's `type=`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:8083")
    return host, int(port)


def text(address: Address) -> str:
    """Return the address in the form for URLs."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def kafka_address(text: str) -> Address:
    """Do as `http_address`, but accept only loopback, where the embedded Kafka listens."""
    host, port = http_address(text)
    if host not in ("127.0.0.1", "localhost"):
        raise argparse.ArgumentTypeError(f"the embedded Kafka listens on 127.0.0.1 only, not on {host!r}")
    return "127.0.0.1", port


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nothing listens on at this moment."""
    return free_ports(1, host)[0]


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return different ports that nothing listens on at this moment. Two calls of `free_port` may return the same."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((host, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def port_is_free(host: str, port: int) -> bool:
    """Return whether a server could bind this port now (a connection in TIME_WAIT does not count)."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def accepts(host: str, port: int) -> bool:
    """Return whether something accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False
