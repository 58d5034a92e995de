"""`plugin_upload.js` sends a file in pieces, and says why where it cannot."""

import base64
import json

import pytest
from playwright.sync_api import Page, expect

from tests.scripts.conftest import STATIC, Open

FORM = """<form id="plugin-upload" data-most="100" data-piece="4">
  <input id="plugin-file" type="file"><button>Upload</button><p id="plugin-upload-state"></p></form>"""
PREPARE = """() => {
    document.body.setAttribute("hx-headers", '{"X-CSRFToken": "token"}');
    Object.defineProperty(window, "crypto", {value: {subtle: {digest: async () => new ArrayBuffer(32)}}});
    window.posts = [];
    window.fetch = async (address, request) => {
        window.posts.push([address, JSON.parse(request.body)]);
        return new Response('{"id": "7"}', {status: 201});
    };
}"""
CONTENT = b"ten bytes!"


@pytest.fixture
def page(opened: Open) -> Page:
    """With the form, and a server that takes everything."""
    page = opened(FORM)
    page.evaluate(PREPARE)
    page.add_script_tag(path=STATIC / "plugin_upload.js")
    return page


def upload(page: Page) -> None:
    page.set_input_files("#plugin-file", {"name": "p.jar", "mimeType": "application/java-archive", "buffer": CONTENT})
    page.click("button")


def test_a_file_is_sent_in_pieces(page: Page) -> None:
    upload(page)
    expect(page.locator("#plugin-upload-state")).to_have_text("Sent. The workers install it.")
    (first, asked), *pieces = page.evaluate("window.posts")
    assert (first, asked) == (
        "/api/v1/plugin-installations",
        {"plugin": "p.jar", "size": len(CONTENT), "sha256": "00" * 32},
    )
    assert {address for address, _ in pieces} == {"/api/v1/plugin-installations/7/bytes"}
    assert [body["start"] for _, body in pieces] == [0, 4, 8]
    assert b"".join(base64.b64decode(body["content"]) for _, body in pieces) == CONTENT


@pytest.mark.parametrize(
    "answer, message",
    [
        ('Promise.reject(new TypeError("Failed to fetch"))', "The server does not answer. When it does, send the file"),
        (f"new Response({json.dumps('<h1>413</h1>')}, {{status: 413}})", "status is 413, and it is not Ringfence's"),
        ('new Response("<h1>Log in</h1>", {status: 200})', "status is 200, and it is not Ringfence's"),
        ("""new Response('{"detail": "It is larger than it said."}', {status: 400})""", "It is larger than it said."),
    ],
)
def test_a_piece_that_does_not_arrive_is_explained(page: Page, answer: str, message: str) -> None:
    page.evaluate(
        """(answer) => {
            const ok = window.fetch;
            window.fetch = async (address, request) => address.endsWith("/bytes") ? eval(answer) : ok(address, request);
        }""",
        answer,
    )
    upload(page)
    expect(page.locator("#plugin-upload-state")).to_contain_text(message)
    expect(page.locator("button")).to_be_enabled()
