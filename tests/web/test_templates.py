"""Templates are written for people: `make lint` holds their layout, and this the lines that it cannot break."""

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
