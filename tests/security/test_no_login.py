"""No login only where it was asked for: a request through a proxy, or from another user, is never taken for ours."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from ringfence.access import login_link, loopback_peer
from ringfence.local.ports import free_port
from tests.security.servers import Web, clean_environment, migrate, serving

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text()
NGINX = (ROOT / "deploy" / "nginx.conf").read_text()
TOKEN = "a-token-of-at-least-24-characters"
BEARER = {"authorization": f"Bearer {TOKEN}"}
STRAY = {"RINGFENCE_NO_LOGIN": "machine", "NO_LOGIN": "machine", "RINGFENCE_TOKEN": TOKEN}
NOBODY_ID = 65534


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("door")
    migrate(made)
    return made


def proxy_variables() -> dict[str, str]:
    """What the page tells people to set behind a proxy."""
    section = PAGE.partition("## Behind a proxy with TLS")[2].partition("\n## ")[0]
    found = dict(re.findall(r"`(RINGFENCE_[A-Z_]+)=([^`]+)`", section))
    assert set(found) == {"RINGFENCE_BEHIND_PROXY", "RINGFENCE_SECURE_COOKIES", "RINGFENCE_ALLOWED_HOSTS"}
    assert "server 127.0.0.1:8083;" in NGINX, "the proxy reaches web on loopback"
    return found


def as_the_proxy_sends_it() -> dict[str, str]:
    """The headers of the file that the page names, with a stranger's address in them."""
    given = {"host": proxy_variables()["RINGFENCE_ALLOWED_HOSTS"]}
    values = {"$host": given["host"], "$remote_addr": "203.0.113.9", "$scheme": "https"}
    for name, value in re.findall(r"proxy_set_header (\S+) (\S+);", NGINX):
        if value != '""':  # nginx passes no such header on
            given[name.lower()] = values.get(value, value)
    assert "x-forwarded-for" in given
    return given


@pytest.mark.thorough
def test_behind_the_documented_proxy_everybody_logs_in(root: Path) -> None:
    with serving(root, ["ringfence.cli", "web", "--http", "ADDRESS"], {**proxy_variables(), **STRAY}) as web:
        for headers in (as_the_proxy_sends_it(), {"host": "ringfence.example.com"}, {"host": "localhost"}, {}):
            written = httpx.put(
                f"http://{web.address}/connectors/by-stranger/config",
                json={"connector.class": "VerifiableSource", "topic": "t"},
                headers=headers,
                timeout=60,
            )
            assert (web.get(**headers).status_code, written.status_code) == (401, 401), headers


@pytest.mark.thorough
def test_another_server_asks_for_a_login_whatever_the_environment_says(root: Path) -> None:
    with serving(root, ["uvicorn", "ringfence.asgi:application", "--port", "PORT"], STRAY) as web:
        assert web.get().status_code == 401
        assert web.get(host="localhost").status_code == 401
        assert web.get(**BEARER).status_code == 200


@pytest.mark.parametrize("name", sorted(proxy_variables()))
def test_with_a_proxy_setting_web_does_not_start_without_a_login(root: Path, name: str) -> None:
    environment = clean_environment(root, {name: proxy_variables()[name]})
    command = [sys.executable, "-m", "ringfence.cli", "web", "--http", f"127.0.0.1:{free_port()}"]
    command += ["--no-login", "machine"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert f"{name} is set" in ended.stderr


@pytest.fixture(scope="module")
def local(root: Path) -> Iterator[Web]:
    command = ["ringfence.cli", "web", "--http", "ADDRESS", "--no-login", "same-user", "--login-link"]
    with serving(root, [*command, str(root / "link")], {"RINGFENCE_TOKEN": TOKEN}) as web:
        yield web


def test_this_machine_comes_in(local: Web) -> None:
    for host in (local.address, "localhost", f"localhost:{local.port}", "127.0.0.1", "[::1]:8083"):
        assert local.get(host=host).status_code == 200, host
    assert httpx.get(f"http://{local.address}/ui/", timeout=60).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        {"x-forwarded-for": "203.0.113.9"},
        {"x-forwarded-for": "127.0.0.1"},
        {"x-forwarded-host": "localhost"},
        {"x-forwarded-proto": "https"},
        {"forwarded": "for=127.0.0.1"},
        {"via": "1.1 proxy"},
        {"x-real-ip": "127.0.0.1"},
    ],
)
def test_what_was_passed_on_does_not(local: Web, header: dict[str, str]) -> None:
    assert local.get(**header).status_code == 401
    assert local.get(**header, **BEARER).status_code == 200


def test_another_name_does_not(local: Web) -> None:
    for host in ("ringfence.example.com", "localhost.example.com", "127.0.0.1.example.com", "10.0.0.1", ""):
        assert local.get(host=host).status_code == 400, host


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as somebody else")
def test_other_users_of_the_machine_stay_out(local: Web) -> None:
    asked = (
        "import sys, urllib.request, urllib.error\n"
        "try: print(urllib.request.urlopen(sys.argv[1], timeout=30).status)\n"
        "except urllib.error.HTTPError as error: print(error.code)\n"
    )
    command = ["/usr/bin/env", "python3", "-c", asked, f"http://{local.address}/connectors"]
    done = subprocess.run(
        command, user=NOBODY_ID, group=NOBODY_ID, capture_output=True, text=True, cwd="/", env={"PATH": "/usr/bin:/bin"}
    )
    assert done.stdout.strip() == "401", done.stderr


def test_a_link_logs_in_once(local: Web, root: Path) -> None:
    code = login_link.create(root / "link")
    link = f"http://{local.address}/ui/login?link={code}"
    elsewhere = {"x-forwarded-for": "203.0.113.9"}  # so that nothing but the session lets it in
    with httpx.Client(headers=elsewhere, timeout=60) as browser:
        assert browser.get(f"http://{local.address}/ui/login?link=wrong").status_code == 401
        assert browser.get(link).status_code == 302
        assert browser.get(f"http://{local.address}/connectors").status_code == 200
    with httpx.Client(headers=elsewhere, timeout=60) as thief:
        second = thief.get(link)
        assert second.status_code == 401
        assert "used already" in second.text
        assert thief.get(f"http://{local.address}/connectors").status_code == 401


def test_an_old_link_is_worth_nothing(tmp_path: Path) -> None:
    path = tmp_path / "link"
    code = login_link.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert code not in path.read_text()
    os.utime(path, (0, 0))
    assert not login_link.redeem(path, code)
    assert not path.exists()
    assert not login_link.redeem(path, code)
    assert not login_link.redeem(None, code)


def of_socket(client: socket.socket) -> loopback_peer.Peer:
    return loopback_peer.Peer(os.getuid(), os.fstat(client.fileno()).st_ino)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("ask", [loopback_peer._by_netlink, loopback_peer._by_table])
def test_the_kernel_knows_whose_connection_it_is(
    host: str, ask: Callable[[loopback_peer.Address, loopback_peer.Address], loopback_peer.Peer | None]
) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.bind((host, 0))
        listening.listen()
        server = listening.getsockname()[:2]
        client = socket.create_connection(server)
        accepted, address = listening.accept()
        with accepted:
            assert ask(address[:2], server) == of_socket(client)
            client.close()
            assert ask(address[:2], server) is None, "nobody's any more, and not root's"
            assert ask((host, 1), server) is None


def test_a_mapped_address_is_found_by_both() -> None:
    with socket.socket(socket.AF_INET6) as listening:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(("::", 0))
        listening.listen()
        with socket.create_connection(("127.0.0.1", listening.getsockname()[1])) as client:
            accepted, address = listening.accept()
            with accepted:
                server = accepted.getsockname()[:2]
                assert address[0] == "::ffff:127.0.0.1"
                assert loopback_peer._by_netlink(address[:2], server) == of_socket(client)
                assert loopback_peer._by_table(address[:2], server) == of_socket(client)


def test_a_short_server_token_is_refused(root: Path) -> None:
    environment = clean_environment(root, {"RINGFENCE_TOKEN": "short"})
    command = [sys.executable, "-m", "ringfence.cli", "web", "--http", f"127.0.0.1:{free_port()}"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, "openssl rand" in ended.stderr, "Traceback" in ended.stderr) == (1, True, False)
