"""`ringfence web`: the web process on its own, for compose and Kubernetes."""

import argparse
import os

from ringfence.local.addresses import http_address
from ringfence.local.errors import LocalError
from ringfence.local.process import port_is_free


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        type=http_address,
        default=http_address(os.environ.get("RINGFENCE_HTTP") or "127.0.0.1:8083"),
        metavar="HOST:PORT",
        help="where to listen (default: $RINGFENCE_HTTP or 127.0.0.1:8083)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    import uvicorn

    host, port = args.http
    if not port_is_free(host, port):
        raise LocalError(f"Port {port} is in use on {host}: choose another with --http HOST:PORT")
    # The application asks for accounts unless it is bound to loopback, so it has to know where it is bound.
    os.environ["RINGFENCE_HTTP"] = f"{host}:{port}"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
    server = uvicorn.Server(
        uvicorn.Config(
            "ringfence.asgi:application",
            host=host,
            port=port,
            lifespan="off",
            access_log=False,
            log_level="info",
            timeout_graceful_shutdown=5,  # event streams never end by themselves
        )
    )
    server.run()
    return 0 if server.started else 1
