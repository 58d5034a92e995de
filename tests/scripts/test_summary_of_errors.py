"""`ringfence.js` takes what was corrected out of the summary of errors."""

from tests.scripts.conftest import Open

_FORM = """<div id="main"></div><section class="alert" id="problem" tabindex="-1"><b>2 settings to correct</b>
<ul class="jumps"><li><a href="#in-a">a</a>: wrong</li><li><a href="#in-b">b</a>: wrong</li></ul></section>
<div class="field"><input id="in-a"><div class="field-errors" id="err-a"></div></div>
<div class="field"><input id="in-b"><div class="field-errors" id="err-b"></div></div>"""
_SWAP = """([id, error]) => {
  const slot = document.getElementById(id);
  slot.innerHTML = error ? '<p class="field-error">wrong</p>' : "";
  slot.dispatchEvent(new CustomEvent("htmx:afterSwap", {bubbles: true, detail: {target: slot}}));
}"""


def test_what_is_corrected_leaves_the_summary_and_the_last_one_takes_it_away(opened: Open) -> None:
    page = opened(_FORM, "ringfence.js")
    page.evaluate(_SWAP, ["err-a", False])
    assert page.locator("#problem b").inner_text() == "1 setting to correct"
    assert page.locator(".jumps li:visible").all_inner_texts() == ["b: wrong"]
    page.evaluate(_SWAP, ["err-a", True])
    assert page.locator("#problem b").inner_text() == "2 settings to correct"
    for slot in ("err-a", "err-b"):
        page.evaluate(_SWAP, [slot, False])
    assert page.locator("#problem").is_hidden()
