"""`morph.js` brings a part to what the server says, and leaves to the reader what is the reader's."""

from playwright.sync_api import Page

from tests.scripts.conftest import Open

_MORPH = """now => {
  const made = document.createElement("template");
  made.innerHTML = now;
  ringfence.morph(document.getElementById("part"), made.content);
}"""


def morphed(page: Page, now: str) -> str:
    """The part's HTML once it was brought to `now`."""
    page.evaluate(_MORPH, now)
    return page.locator("#part").inner_html()


def test_a_part_becomes_what_the_server_says(opened: Open) -> None:
    page = opened('<div id="part"><p class="a">one</p>text<ul><li id="x">x</li></ul></div>', "morph.js")
    now = '<h2>new</h2><p class="b" title="t">two</p><ul><li id="y">y</li><li id="x">x2</li></ul>'
    assert morphed(page, now) == now
    assert morphed(page, "") == ""


def test_elements_with_an_id_are_moved_and_stay_the_same(opened: Open) -> None:
    rows = [f'<li id="{name}"><input id="in-{name}" value="{name}"></li>' for name in "abc"]
    page = opened(f'<ol id="part">{"".join(rows)}</ol>', "morph.js")
    page.evaluate('window.old = ["a", "b", "c"].map((id) => document.getElementById(id))')
    page.locator("#in-b").focus()
    page.locator("#in-b").fill("typed")
    assert morphed(page, "".join(rows[number] for number in (2, 0, 1))) == "".join(rows[n] for n in (2, 0, 1))
    assert page.evaluate("old.every((node) => node === document.getElementById(node.id))")
    assert page.evaluate("document.activeElement.id") == "in-b"
    assert page.locator("#in-b").input_value() == "typed"


def test_what_is_equal_is_not_touched(opened: Open) -> None:
    same = '<p id="p">text <b>bold</b></p>'
    page = opened(f'<div id="part">{same}<p>1</p></div>', "morph.js")
    page.evaluate("""() => {
      window.changes = [];
      new MutationObserver((found) => changes.push(...found.map((each) => each.target.nodeName)))
        .observe(part, {subtree: true, childList: true, attributes: true, characterData: true});
    }""")
    morphed(page, f"{same}<p>2</p>")
    assert page.evaluate("changes") == ["#text"]


def test_what_the_reader_opened_and_ticked_stays_so(opened: Open) -> None:
    page = opened(
        '<div id="part"><details id="d"><summary>s</summary>1</details><input type="checkbox" id="c">'
        '<button id="b" disabled>b</button></div>',
        "morph.js",
    )
    page.locator("summary").click()
    page.locator("#c").check()
    morphed(
        page,
        '<details id="d"><summary>s</summary>2</details><input type="checkbox" id="c" class="n">'
        '<button id="b">b</button>',
    )
    assert page.evaluate('document.getElementById("d").open')
    assert page.locator("#c").is_checked()
    assert page.locator("#c").get_attribute("class") == "n"
    assert page.locator("#b").is_enabled(), "any other attribute is the server's"


def test_the_focus_goes_to_the_heading_when_its_element_is_gone(opened: Open) -> None:
    page = opened('<main><h1>Title</h1><div id="part"><button id="gone">x</button></div></main>', "morph.js")
    page.locator("#gone").focus()
    morphed(page, "<p>nothing</p>")
    assert page.evaluate("document.activeElement.nodeName") == "H1"


def test_the_focus_goes_to_the_element_that_took_the_place(opened: Open) -> None:
    page = opened('<main><h1>T</h1><div id="part"><a id="x" href="#">x</a></div></main>', "morph.js")
    page.locator("#x").focus()
    morphed(page, '<p><button id="x">x</button></p>')
    assert page.evaluate("document.activeElement.nodeName") == "BUTTON"
