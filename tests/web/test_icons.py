"""The console's font of icons: every icon that a page may show is in it, drawn as in unfold's own."""

import re
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from tests.support.leader import FakeLeader
from tests.web import icons

SHOWN = re.compile(r'<(\w+)[^>]*class="[^"]*\bmaterial-symbols-outlined\b[^>]*>\s*([^<]*?)\s*</\1>')


@pytest.fixture(scope="module")
def ours() -> Any:
    return icons.load(icons.OURS)


@pytest.fixture(scope="module")
def theirs() -> Any:
    return icons.load(icons.THEIRS)


def test_the_font_that_is_served_is_ours() -> None:
    assert finders.find(icons.FILE) == str(icons.OURS)
    assert icons.OURS.stat().st_size < 12_000
    assert "Apache License" in icons.OURS.with_name("NOTICE.txt").read_text()


def test_every_icon_of_unfold_s_and_of_ours_is_in_the_font(ours: Any, theirs: Any) -> None:
    known = set(icons.ligatures(theirs))
    assert icons.named_by_us() <= known, "no icon of unfold's font is called this"
    used = icons.used(known)
    assert {"fence", "cable", "search", "dark_mode", "check_small", "progress_activity", "visibility_off"} <= used
    assert used - set(icons.ligatures(ours)) == set(), icons.REMEDY


def test_an_icon_is_drawn_as_in_unfold_s_font(ours: Any, theirs: Any) -> None:
    originals, drawings = icons.ligatures(theirs), ours["glyf"]
    for name, glyph in icons.ligatures(ours).items():
        assert drawings[glyph] == theirs["glyf"][originals[name]], f"{name}: {icons.REMEDY}"
        assert drawings[glyph].numberOfContours > 0, name
        assert ours["hmtx"][glyph] == theirs["hmtx"][originals[name]], name
    assert str(ours["name"].getDebugName(0)).startswith("Copyright"), "which the licence wants to be kept"


@pytest.mark.parametrize("page", ["", "connectors/", "auth/user/", "audit/auditentry/", "accounts/new/"])
def test_a_page_shows_icons_of_the_font_alone(client: Client, leader: FakeLeader, ours: Any, page: str) -> None:
    shown = {name for _, name in SHOWN.findall(client.get(f"/console/{page}").content.decode()) if name}
    assert {"fence", "cable", "hourglass_top", "logout"} <= shown
    assert shown - set(icons.ligatures(ours)) == set(), icons.REMEDY
