"""Where a page of the console begins for the keyboard: a dangerous act at Cancel, a form at its first field."""

import pytest

from tests.scripts.conftest import Open

FORM = """<form id="act"><input type="hidden" name="token"><input id="name"><textarea id="reason"></textarea>
<a id="cancel" href="#" {focus}>Cancel</a><button id="do">Do it</button></form>"""


@pytest.mark.parametrize(("focus", "begins"), [("data-focus", "cancel"), ("", "name")])
def test_where_it_begins(opened: Open, focus: str, begins: str) -> None:
    page = opened(FORM.format(focus=focus), "console.js")
    assert page.evaluate("document.activeElement.id") == begins
