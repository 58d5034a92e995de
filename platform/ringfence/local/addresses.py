"""Parses HOST:PORT arguments."""

import argparse

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
