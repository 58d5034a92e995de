"""`/ui/docs`: the documents are served whole, their links lead somewhere, and HTML in them is text."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.test import Client, override_settings

from ringfence.web.handbook import documents as handbook
from ringfence.web.handbook.pages import GROUPS, group
from tests.support.pages import text

ROOT = Path(__file__).resolve().parents[2]
_NAMES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))


def test_every_link_leads_to_a_section_or_a_file() -> None:
    pages = handbook.documents()
    assert sorted(pages) == _NAMES
    wrong = []
    for name, page in pages.items():
        for link in re.findall(r'href="([^"]+)"', page.html):
            if link.startswith(("https://", "http://")):
                continue
            address, _, anchor = link.partition("#")
            target = pages.get(address.removeprefix("/ui/docs/")) if address else page
            if target is None or (anchor and anchor not in re.findall(r' id="([^"]+)"', target.html)):
                wrong.append(f"{name}: {link}")
        source = (ROOT / "docs" / f"{name}.md").read_text()
        local = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", source)
        wrong += [f"{name}: {link}" for link in local if not (ROOT / "docs" / link).exists()]
    assert wrong == []


def test_html_and_scripts_in_a_document_are_text(tmp_path: Path) -> None:
    file = tmp_path / "odd.md"
    file.write_text(
        "# A <b>title</b>\n\n<script>1</script>\n\n[x](javascript:alert(1)) [y](../secret.md) [z](sql.md#more)\n\n"
        "## Twice, `it`\n\n## Twice, it\n"
    )
    page = handbook._read(file)
    assert "<script" not in page.html
    assert "<b>" not in page.html
    assert re.findall(r'href="([^"]+)"', page.html) == ["/ui/docs/sql#more"]
    assert [section.anchor for section in page.sections][1:] == ["twice-it", "twice-it-1"]


def test_headings_are_searched(client: Client, signed_in: None) -> None:
    page = text(client.get("/ui/docs", {"search": "reading TOPICS"}))
    assert 'href="/ui/docs/access#reading-topics"' in page
    assert 'href="/ui/docs/glossary"' not in page
    assert "No heading contains these words" in text(client.get("/ui/docs", {"search": "zzqq"}))


def test_an_account_without_permissions_reads_them_and_others_log_in(client: Client, signed_in: None) -> None:
    assert 'href="/ui/docs/glossary"' in text(client.get("/ui/docs"))
    assert '<h2 id="single-sign-on">' in text(client.get("/ui/docs/access"))
    for wrong in ("nothing", "..", "README"):
        assert client.get(f"/ui/docs/{wrong}").status_code == 404
    client.logout()
    assert client.get("/ui/docs/access")["location"].startswith("/ui/login")


@pytest.fixture
def signed_in(client: Client) -> Iterator[None]:
    client.force_login(get_user_model().objects.create_user("reader", password="a long one 4711"))
    with override_settings(NO_LOGIN=""):
        yield


def test_every_document_is_in_the_list_once() -> None:
    groups = dict(group(handbook.documents().values()))
    names = [each.name for found in groups.values() for each in found]
    assert sorted(names) == sorted(handbook.documents()), "give the document a group"
    assert {name for some in GROUPS.values() for name in some} <= set(names), "a document that is gone"


def test_no_table_has_a_head_without_a_text() -> None:
    assert "<th></th>" not in "".join(document.html for document in handbook.documents().values())
    assert "<td></td>" in handbook.documents()["deployment"].html
