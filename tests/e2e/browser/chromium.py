"""The Chromium that these tests drive: the one on the PATH, never a download."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The first one is the browser without its window: the tests take half the time and half the CPU.
_NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
)
ARGUMENTS = (
    "--no-sandbox",  # it runs as root in containers, and opens our own pages only
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
HOW_TO_INSTALL = "apt-get install chromium-headless-shell, or set RINGFENCE_TEST_CHROMIUM to the program"


def find() -> str | None:
    """The program, None where there is none. RINGFENCE_TEST_CHROMIUM names another one."""
    chosen = os.environ.get("RINGFENCE_TEST_CHROMIUM")
    names = (chosen,) if chosen else _NAMES
    return next((path for path in map(shutil.which, names) if path), None)


@pytest.fixture(scope="package")
def chromium() -> Iterator["Browser"]:
    """One browser for all tests of a folder whose `conftest.py` imports it."""
    from playwright.sync_api import sync_playwright

    path = find()
    assert path is not None, HOW_TO_INSTALL
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
