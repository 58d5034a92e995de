"""`ringfence.js` brings the current tab of a strip that is wider than the window into sight."""

from tests.scripts.conftest import Open

_TABS = """<nav class="tabs" style="display: flex; overflow-x: auto; width: 200px">
<a style="flex: none; width: 120px">one</a><a style="flex: none; width: 120px">two</a>
<a style="flex: none; width: 120px" aria-current="page">three</a></nav>"""


def test_the_current_tab_is_in_sight(opened: Open) -> None:
    page = opened(f'{_TABS}<div id="main"></div>', "ringfence.js")
    inside = page.evaluate("""() => {
      const box = (selector) => document.querySelector(selector).getBoundingClientRect();
      const [strip, tab] = [box(".tabs"), box("[aria-current]")];
      return tab.left >= strip.left && tab.right <= strip.right;
    }""")
    assert inside
