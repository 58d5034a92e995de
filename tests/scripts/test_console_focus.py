"""Where a page of the console begins for the keyboard: a dangerous act at Cancel, a form at its first field."""

import pytest

from tests.scripts.conftest import Open

FORM = """<form id="act" {danger}><input type="hidden" name="token"><input id="name"><textarea id="reason"></textarea>
<a id="cancel" href="#" data-close>Cancel</a><button id="do">Do it</button></form>"""


@pytest.mark.parametrize(("danger", "begins"), [('data-name="orders"', "cancel"), ("", "name")])
def test_where_it_begins(opened: Open, danger: str, begins: str) -> None:
    page = opened(FORM.format(danger=danger), "console.js")
    assert page.evaluate("document.activeElement.id") == begins
