"""Every icon of the console is one of unfold's font: a name that it does not know would stand there as a bare word."""

import re
from pathlib import Path
from typing import Any

import pytest
import unfold
from django.conf import settings
from django.test import Client
from fontTools.ttLib import TTFont

from ringfence.console.navigation import GROUPS
from tests.support.leader import FakeLeader

FILE = "static/unfold/fonts/material-symbols/Material-Symbols-Outlined.woff2"
SHOWN = re.compile(r'<(\w+)[^>]*class="[^"]*\bmaterial-symbols-outlined\b[^>]*>\s*([^<]*?)\s*</\1>')


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The names in unfold's font; it writes each as a ligature of its letters."""
    font: Any = TTFont(Path(unfold.__file__).parent / FILE)
    letters = {glyph: chr(code) for code, glyph in font.getBestCmap().items()}
    return {
        "".join(letters[part] for part in (first, *ligature.Component))
        for lookup in font["GSUB"].table.LookupList.Lookup
        for table in lookup.SubTable
        for first, found in table.ligatures.items()
        for ligature in found
    }


def test_every_icon_of_the_navigation_is_in_the_font(known: set[str]) -> None:
    ours = {str(settings.UNFOLD["SITE_SYMBOL"]), *(icon for _, items in GROUPS for _, _, icon, _ in items)}
    assert {"fence", "cable"} <= ours
    assert ours - known == set()


@pytest.mark.parametrize("page", ["", "connectors/", "auth/user/", "audit/auditentry/", "accounts/new/"])
def test_a_page_shows_icons_of_the_font_alone(client: Client, leader: FakeLeader, known: set[str], page: str) -> None:
    shown = {name for _, name in SHOWN.findall(client.get(f"/console/{page}").content.decode()) if name}
    assert {"fence", "cable", "hourglass_top", "logout"} <= shown
    assert shown - known == set()
