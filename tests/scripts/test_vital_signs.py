"""`vital_signs.js` repeats a failed fetch, however many changes came in the meantime, with one timer."""

from tests.scripts.conftest import Open

PAGE = '<div id="vital-signs"></div><div sse-connect="/ui/events"></div>'
FAIL = """() => {
    window.asked = 0;
    window.fetch = () => { window.asked += 1; return Promise.reject(new Error("away")); };
}"""
CHANGE = "document.body.dispatchEvent(new CustomEvent('ringfence-vital-signs'))"


def test_changes_during_an_outage_do_not_multiply_the_fetches(opened: Open) -> None:
    page = opened(PAGE, "vital_signs.js", now_ms=1_800_000_000_000)
    page.evaluate(FAIL)
    page.evaluate(f"{CHANGE}; {CHANGE}; {CHANGE}")
    asked = [page.evaluate("window.asked")]
    for _ in range(2):
        page.clock.run_for(3000)
        asked.append(page.evaluate("window.asked"))
    assert asked == [2, 3, 4], "first one for the first change, and one for all that came during it"
