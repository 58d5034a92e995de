"""Templates are written for people: `make lint` holds their layout, and this the lines that it cannot break."""

import re
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
MOST = 140


def test_no_line_of_a_template_is_longer_than_a_reader_can_follow() -> None:
    templates = sorted(TEMPLATES.rglob("*.html"))
    lines = [
        (f"{path.relative_to(TEMPLATES)}:{number}", len(line))
        for path in templates
        for number, line in enumerate(path.read_text().splitlines(), 1)
    ]
    assert len(templates) > 90
    assert [(where, length) for where, length in lines if length > MOST] == []


def test_there_is_one_way_to_confirm() -> None:
    """One dialog, fetched when it is needed, and one end of each act that asks: the same words and the same buttons."""
    texts = {path.relative_to(TEMPLATES).as_posix(): path.read_text() for path in sorted(TEMPLATES.rglob("*.html"))}
    dialogs = {match for text in texts.values() for match in re.findall(r'<dialog id="([\w-]+)"', text)}
    assert dialogs == {"ask", "keys-help", "palette", "inspector"}, "an act asks in #ask"
    end = "ringfence/parts/confirm_end.html"
    assert [name for name, text in texts.items() if "to confirm</label>" in text] == [end]
    assert [name for name, text in texts.items() if re.search(r">\s*Cancel</(a|button)>", text) and name != end] == [
        # Forms, which are left and not refused.
        "ringfence/alert_form.html",
        "ringfence/parts/new_bar.html",
    ]


def test_whoever_did_something_has_one_name() -> None:
    """An account, or what everybody is called who was let in without a login: never an empty place."""
    someone = re.compile(r"{{\s*[\w.]*(?:\buser|\w_by)\s*(?:\|[^}]*)?}}")
    found = [
        (path.relative_to(TEMPLATES).as_posix(), name)
        for path in sorted(TEMPLATES.rglob("*.html"))
        for name in someone.findall(path.read_text())
    ]
    assert len(found) > 8
    counts = {"{{ told_by }}"}  # of rules
    assert [(path, name) for path, name in found if "|principal" not in name and name not in counts] == []
