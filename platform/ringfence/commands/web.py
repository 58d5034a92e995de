"""`ringfence web`: runs the web process alone, for compose and Kubernetes."""

import argparse
import contextlib
import logging
import os
import resource
from pathlib import Path

from ringfence import log_format, telemetry
from ringfence.environment import NoLogin, is_loopback, proxy_setting
from ringfence.imports import without_collections
from ringfence.local.errors import LocalError
from ringfence.local.ports import http_address, port_is_free

_OTHER_FILES = 1024
"""More than the web process opens beside connections, and than the system accepts at once before one is dropped."""

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        type=http_address,
        default=http_address(os.environ.get("RINGFENCE_HTTP") or "127.0.0.1:8083"),
        metavar="HOST:PORT",
        help="address to listen on (default: $RINGFENCE_HTTP or 127.0.0.1:8083)",
    )
    log_format.add_argument(parser)
    # Internal: `ringfence up` passes them to its web process.
    parser.add_argument("--no-login", default="", help=argparse.SUPPRESS)
    parser.add_argument("--no-login-ended", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--login-link", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--starting", type=Path, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    log_format.choose(args.log_format)
    host, port = args.http
    if not port_is_free(host, port):
        raise LocalError(f"Port {port} is in use on {host}: choose another with --http HOST:PORT")
    # The accepted host names depend on the address.
    os.environ["RINGFENCE_HTTP"] = f"{host}:{port}"
    log_format.describe_process(process="web", web=f"{host}:{port}")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
    with without_collections():
        telemetry.import_redis()
        import uvicorn

        _close_own_listeners()
        _open_door(args.no_login, args.no_login_ended, args.login_link, f"{host}:{port}")
        _say_what_starts(args.starting)
        _check_sign_on()
        _allow_open_files()
        from django.urls import get_resolver

        from ringfence.web.http_protocol import IDLE_SECONDS, BoundedProtocol, EndingServer

        config = uvicorn.Config(
            "ringfence.asgi:application",
            host=host,
            port=port,
            lifespan="off",
            http=BoundedProtocol,
            timeout_keep_alive=IDLE_SECONDS,
            access_log=False,  # ours knows accounts and ids (web/access_log.py)
            log_config=None,  # its lines go the way of all others
            log_level="info",
            # Our code reads X-Forwarded-… if RINGFENCE_BEHIND_PROXY is set; uvicorn would trust any local process.
            proxy_headers=False,
            timeout_graceful_shutdown=5,  # event streams never end by themselves
        )
        logging.getLogger("uvicorn")  # so that its level can be set: without a log_config, nothing has made it
        config.load()
        _ = get_resolver().url_patterns  # all views: not in the first request
        if not os.environ.get("RINGFENCE_SECRET_KEY"):
            log.warning("RINGFENCE_SECRET_KEY is not set: sessions end with this process, and no other one knows them")
        from ringfence.metrics.otlp import exported_metrics

    telemetry.start("web", f"{host}:{port}")
    with contextlib.ExitStack() as exports:
        exports.callback(telemetry.stop)
        exports.enter_context(exported_metrics(f"{host}:{port}"))
        server = EndingServer(config, exports.close)
        server.run()
    return 0 if server.started else 1


def _allow_open_files() -> None:
    """Raise the limit of open files above what the connections take, where the system lets us."""
    from django.conf import settings

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.REQUEST_LIMITS.connections * 2 + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _let_in(who: NoLogin, ended: Path | None) -> None:
    from ringfence import django_apps

    django_apps.load()
    from django.db import DatabaseError

    from ringfence.access import no_login

    no_login.open_door(who, ended)
    with contextlib.suppress(DatabaseError):  # each request asks again
        no_login.is_over()


def _say_what_starts(file: Path | None) -> None:
    from django.conf import settings

    settings.STARTING = file


def _check_sign_on() -> None:
    """Raise `LocalError` if single sign-on cannot work, instead of failing at the first login."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    from ringfence.access.oidc.claims import WrongGroups, read_groups

    oidc = settings.OIDC
    if oidc is None:
        return
    try:
        oidc.client_secret()
        if oidc.groups_file is not None:
            read_groups(oidc.groups_file)
    except (ImproperlyConfigured, WrongGroups) as error:
        raise LocalError(str(error)) from error


def _close_own_listeners() -> None:
    """Keep this process from connecting to the platform's listeners, wherever users say the address."""
    from ringfence.connectors.process_tree import MARK
    from ringfence.connectors.sdk import own_listeners
    from ringfence.platform_addresses import find_own_listeners

    os.environ.setdefault(MARK, str(os.getpid()))  # `ringfence up` has set its own
    own_listeners.declare(find_own_listeners({}, os.environ), ())


def _open_door(no_login: str, ended: Path | None, login_link: Path | None, address: str) -> None:
    """Configure who needs no login. Raises `LocalError` if that would admit other machines."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        secure = bool(settings.BEHIND_PROXY or settings.SESSION_COOKIE_SECURE)
    except ImproperlyConfigured as error:
        raise LocalError(str(error)) from error
    if no_login:
        proxy = proxy_setting(os.environ)
        if proxy:
            raise LocalError(f"{proxy} is set, so a proxy forwards requests of others: a login is required")
        if not is_loopback(address):
            raise LocalError(f"{address} can be reached from other machines: a login is required")
        _let_in(NoLogin(no_login), ended)
    settings.LOGIN_LINK = login_link
    if not is_loopback(address) and not secure:
        log.warning(
            "%s can be reached from other machines, and passwords and tokens cross the network in clear: put a proxy "
            "with TLS before it (docs/deployment.md)",
            address,
        )
