"""`live.js` decides whether a part may be fetched now: nothing is swapped under somebody's hands."""

import pytest

from tests.scripts.conftest import Open

_PART = """
<span id="live" hidden><span class="live-word"></span></span>
<div id="part" data-live><input id="name" value="a"><input type="checkbox" name="connector" id="box">
<input type="hidden" id="hidden" value="h"><button id="button">b</button><p id="words">some words</p></div>
<input id="elsewhere"><dialog id="dialog"><button>ok</button></dialog>
"""
_ASK = """() => !document.getElementById("part").dispatchEvent(
  new CustomEvent("htmx:beforeRequest", {bubbles: true, cancelable: true}))"""


@pytest.mark.parametrize(
    ("done", "held"),
    [
        ("", False),
        ('document.getElementById("name").focus()', True),
        ('document.getElementById("elsewhere").focus()', False),
        ('document.getElementById("button").focus()', False),
        ('document.getElementById("box").focus()', False),
        ('document.getElementById("box").checked = true', True),
        ('document.getElementById("name").value = "changed"', True),
        ('document.getElementById("hidden").value = "changed"', False),
        ('document.getElementById("dialog").showModal()', True),
        ('getSelection().selectAllChildren(document.getElementById("words"))', True),
    ],
)
def test_a_part_is_left_alone_while_somebody_is_at_work_in_it(opened: Open, done: str, held: bool) -> None:
    page = opened(_PART, "morph.js", "live.js")
    page.evaluate(done)
    assert page.evaluate(_ASK) is held


def test_a_part_that_was_left_alone_is_fetched_afterwards(opened: Open) -> None:
    page = opened(_PART, "morph.js", "live.js")
    page.evaluate("""() => {
      window.asked = 0;
      document.body.addEventListener("ringfence-refresh", () => { window.asked += 1; });
    }""")
    page.locator("#name").focus()
    assert page.evaluate(_ASK)
    page.locator("#elsewhere").focus()
    page.wait_for_function("window.asked === 1", timeout=10_000)


def test_other_elements_requests_are_never_held(opened: Open) -> None:
    page = opened(_PART + '<form id="form"></form>', "morph.js", "live.js")
    page.locator("#name").focus()
    assert not page.evaluate(_ASK.replace('"part"', '"form"'))
