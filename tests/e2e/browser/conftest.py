"""One Chromium for these tests, and a fresh context per visitor. Without a Chromium they are skipped, and say so."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.e2e.browser import chromium as program
from tests.e2e.browser.chromium import chromium
from tests.e2e.browser.scene import Scene
from tests.e2e.browser.visitor import Visitor
from tests.e2e.conftest import await_calm
from tests.e2e.up import Up

__all__ = ["chromium"]

_failed = pytest.StashKey[bool]()
Visitors = Callable[..., Visitor]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skipped before any fixture starts a platform that nobody would look at."""
    if program.find() is None:
        for item in _of_browsers(items):
            item.add_marker(pytest.mark.skip(reason=f"There is no Chromium on the PATH: {program.HOW_TO_INSTALL}"))


def _of_browsers(items: list[pytest.Item]) -> list[pytest.Item]:
    return [item for item in items if isinstance(item, pytest.Function) and "chromium" in item.fixturenames]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


def has_failed(request: pytest.FixtureRequest) -> bool:
    """Whether the test itself has; for what comes after it."""
    return bool(request.node.stash.get(_failed, False))


@pytest.fixture
def visitors(chromium: Browser, platform: Up, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Visitors]:
    """`visitors(width=1280, theme="light")`: one more person. What their browsers complain about fails the test."""
    made: list[Visitor] = []

    def new(**options: int | str) -> Visitor:
        made.append(Visitor(chromium, platform.rest.url, **options))  # type: ignore[arg-type]
        return made[-1]

    yield new
    if has_failed(request):
        for number, each in enumerate(made):
            each.keep_evidence(tmp_path, f"visitor-{number}")
    for each in made:
        each.close()
    assert [complaint for each in made for complaint in each.complaints] == []


@pytest.fixture
def visitor(visitors: Visitors) -> Visitor:
    return visitors()


@pytest.fixture(scope="package")
def scene(shared_up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Connectors in several states, for tests that look and change nothing."""
    await_calm(shared_up)
    with Scene(shared_up, tmp_path_factory.mktemp("scene")) as made:
        yield made
