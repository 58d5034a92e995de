"""Single sign-on as people do it: Chromium, a web process, and a certified OpenID provider."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from ringfence.local.ports import free_port
from tests.e2e.browser import axe, chromium
from tests.security.identity_provider import install, provide
from tests.security.servers import Web, clean_environment, migrate, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SECRET = "a-secret-of-the-client-0123456789"
GROUPS = "platform: {allow: admin}\nteam-a: {allow: editor, pattern: 'team-a-*'}\n"


@dataclass
class Scene:
    """`people`: the file that says what the provider knows of whom."""

    root: Path
    provider: Path
    port: int
    web: Web
    people: Path

    def know(self, **people: dict[str, object]) -> None:
        self.people.write_text(json.dumps(people))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    if chromium.find() is None:
        pytest.skip(f"There is no Chromium on the PATH: {chromium.HOW_TO_INSTALL}")
    (tmp_path / "provider").mkdir()
    provider = install(tmp_path / "provider")
    for name, text in (("groups.yaml", GROUPS), ("secret", SECRET), ("people.json", "{}")):
        (tmp_path / name).write_text(text)
    migrate(tmp_path)
    issuer_port = free_port()
    settings = {
        "RINGFENCE_PUBLIC_URL": "http://ADDRESS",
        "RINGFENCE_OIDC_ISSUER": f"http://127.0.0.1:{issuer_port}",
        "RINGFENCE_OIDC_CLIENT_ID": "ringfence",
        "RINGFENCE_OIDC_CLIENT_SECRET_FILE": str(tmp_path / "secret"),
        "RINGFENCE_OIDC_GROUPS_FILE": str(tmp_path / "groups.yaml"),
        "RINGFENCE_OIDC_LABEL": "Example Login",
        "CONNECT_EGRESS_ALLOW": "loopback",
    }
    with serving(tmp_path, ["ringfence.cli", "web", "--http", "ADDRESS"], settings) as web:
        yield Scene(tmp_path, provider, issuer_port, web, tmp_path / "people.json")


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=list(chromium.ARGUMENTS))
        yield browser.new_context().new_page()
        browser.close()


def log_in(page: Page, scene: Scene, person: str, path: str = "/ui/share-groups") -> None:
    """From a page here, through the provider's own pages, and back."""
    page.goto(f"http://{scene.web.address}{path}")
    assert axe.both_themes(page) == []
    page.get_by_role("link", name="Continue with Example Login").click()
    assert page.url.startswith(f"http://127.0.0.1:{scene.port}/interaction/"), page.url
    page.locator("input[name=login]").fill(person)
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button").click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_logs_in_loses_a_group_and_logs_out(scene: Scene, page: Page) -> None:
    public = f"http://{scene.web.address}"

    run = partial(provide, scene.provider, scene.port, public, SECRET, scene.people)
    scene.know(ann={"preferred_username": "ann@example.org", "groups": ["platform"]})
    with run():
        log_in(page, scene, "ann", "/ui/settings/sessions")
        assert page.url == f"{public}/ui/settings/sessions"
        expect(page.get_by_role("row", name="this session")).to_contain_text("ann@example.org")
        assert "code=" not in page.evaluate("performance.getEntriesByType('navigation')[0].name")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="You are logged out")).to_be_visible()
        assert axe.both_themes(page) == []
        page.get_by_role("link", name="too").click()
        page.get_by_role("button", name="Yes").click()
        page.wait_for_url(f"{public}/ui/login*")

    scene.know(ann={"preferred_username": "ann@example.org", "groups": ["sales"]})
    with run():  # with other keys than before
        log_in(page, scene, "ann")
        expect(page.get_by_role("alert")).to_contain_text("None of your groups gives permissions here (sales)")
        assert axe.both_themes(page) == []

    scene.know(ann={"preferred_username": "ann@example.org", "groups": ["team-a"]})
    with run():
        log_in(page, scene, "ann", "/ui/settings/sessions")
        assert page.url == f"{public}/ui/settings/sessions"
        assert page.goto(f"{public}/ui/settings/people").status == 403  # type: ignore[union-attr]

    trail = (scene.root / f"web-{scene.web.port}.log").read_text()
    assert SECRET not in trail
    assert "eyJ" not in trail
    assert "Traceback" not in trail


def test_who_logs_out_at_the_provider_is_logged_out_here(scene: Scene, page: Page) -> None:
    public = f"http://{scene.web.address}"
    scene.know(ann={"preferred_username": "ann@example.org", "groups": ["platform"]})
    with provide(scene.provider, scene.port, public, SECRET, scene.people):
        log_in(page, scene, "ann", "/ui/settings/sessions")
        expect(page.get_by_role("row", name="this session")).to_be_visible()
        with page.context.new_page() as there:
            there.goto(f"http://127.0.0.1:{scene.port}/session/end")
            there.get_by_role("button", name="Yes").click()
            there.wait_for_url("**/session/end/success*")
        page.goto(f"{public}/ui/settings/sessions")
        expect(page.get_by_role("link", name="Continue with Example Login")).to_be_visible()
        page.goto(f"{public}/ui/connectors")
        expect(page.get_by_role("link", name="Continue with Example Login")).to_be_visible()


def test_an_account_of_the_same_name_is_linked_by_an_administrator_alone(scene: Scene, page: Page) -> None:
    def users(*words: str) -> None:
        command = [sys.executable, "-m", "ringfence.cli", "users", *words]
        done = subprocess.run(command, env=clean_environment(scene.root), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    users("create", "bob", "--no-password", "--allow", "admin")
    scene.know(b7={"preferred_username": "bob", "groups": ["team-a"]})
    issuer = f"http://127.0.0.1:{scene.port}"
    with provide(scene.provider, scene.port, f"http://{scene.web.address}", SECRET, scene.people):
        log_in(page, scene, "b7")
        expect(page.get_by_role("alert")).to_contain_text("ringfence users link bob --subject b7")
        users("link", "bob", "--subject", "b7", "--issuer", issuer)
        page.get_by_role("link", name="Continue with Example Login").click()
        page.wait_for_url(f"http://{scene.web.address}/ui/**")
        page.goto(f"http://{scene.web.address}/ui/settings/people")
        expect(page.get_by_role("row", name="bob")).to_contain_text("admin on *")
