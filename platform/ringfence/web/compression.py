"""Compresses pages and static files with gzip, for browsers that accept it, and serves our style sheets and scripts
without their comments and indentation. Event streams and the API are left alone.
"""

import gzip
import re
import secrets
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin

from ringfence.web.live.fragment_cache import FragmentResponse

_LEAST = 1_500
"""Bytes. A smaller answer fits into one packet uncompressed."""
_FILE_LEVEL = 9
_PAGE_LEVEL = 6
"""An eighth smaller than with 3, for less than a millisecond on the largest pages. Parts that are asked for all the
time have a level of their own."""
_PADDING = 96
_TEXTS = ("text/html", "text/css", "text/javascript", "application/javascript", "image/svg+xml")


class CompressionMiddleware(MiddlewareMixin):
    """Stands above WhiteNoise and keeps its files in memory: they are few, and change only with a new version."""

    _files: dict[tuple[str, str, bool], bytes]

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        kind = response.get("Content-Type", "").partition(";")[0]
        if response.status_code != 200 or kind not in _TEXTS or "Content-Encoding" in response.headers:
            return response
        is_file = request.path_info.startswith(settings.STATIC_URL)
        if not is_file and not (isinstance(response, HttpResponse) and len(response.content) >= _LEAST):
            return response
        patch_vary_headers(response, ("Accept-Encoding",))
        if "Range" in request.headers:
            return response
        accepts = "gzip" in request.headers.get("Accept-Encoding", "")
        if is_file:
            return self._file(request, response, shortener_of(request.path_info), compressed=accepts)
        return self._page(response) if accepts else response

    def _page(self, response: HttpResponseBase) -> HttpResponseBase:
        """Pad the page with a string of random length, so that the compressed size reveals nothing about its content
        (BREACH).
        """
        assert isinstance(response, HttpResponse)
        padding = "r" * secrets.randbelow(_PADDING + 1)
        if isinstance(response, FragmentResponse):
            response.content = _with_name(response.part.gzip_bytes, padding)
        else:
            response.content = _with_name(gzip.compress(response.content, _PAGE_LEVEL, mtime=0), padding)
        response["Content-Encoding"] = "gzip"
        response["Content-Length"] = str(len(response.content))
        return response

    def _file(
        self,
        request: HttpRequest,
        response: HttpResponseBase,
        shorten: Callable[[bytes], bytes],
        *,
        compressed: bool,
    ) -> HttpResponseBase:
        assert isinstance(response, StreamingHttpResponse)
        files = vars(self).setdefault("_files", {})
        key = (request.path_info, response.get("Last-Modified", ""), compressed)
        if key not in files:
            content = shorten(b"".join(response))
            files[key] = gzip.compress(content, _FILE_LEVEL, mtime=0) if compressed else content
        response.close()
        file_response = HttpResponse(b"" if request.method == "HEAD" else files[key])
        for name, value in response.headers.items():
            if name not in ("Content-Length", "ETag"):
                file_response[name] = value
        if compressed:
            file_response["Content-Encoding"] = "gzip"
        file_response["Content-Length"] = str(len(files[key]))
        return file_response


_CSS_MARKS: Final = re.compile(rb"([{};])")


def shortener_of(path: str) -> Callable[[bytes], bytes]:
    """Return what shortens the file: of ours, style sheets and scripts."""
    if not path.startswith(f"{settings.STATIC_URL}ringfence/"):
        return bytes
    return {"css": shorten_css, "js": shorten_js}.get(path.rpartition(".")[2], bytes)


def shorten_css(text: bytes) -> bytes:
    """Remove comments, and white space around braces and semicolons."""
    parts, at = [], 0
    while (start := text.find(b"/*", at)) >= 0 and (end := text.find(b"*/", start + 2)) >= 0:
        parts.append(text[at:start])
        at = end + 2
    rest = b"".join([*parts, text[at:]])
    return b"".join(map(bytes.strip, _CSS_MARKS.split(rest))) + b"\n"


def shorten_js(text: bytes) -> bytes:
    """Remove lines that are comments, and indentation. Each statement keeps its line, so that errors name a short one;
    no string of ours goes over several lines.
    """
    return b"".join(
        line.strip() + b"\n" for line in text.splitlines() if line.strip() and not line.lstrip().startswith(b"//")
    )


def _with_name(member: bytes, name: str) -> bytes:
    """Return the gzip member with a file name in its header (RFC 1952, 2.3): the flag in the fourth byte, then the
    name.
    """
    return member[:3] + b"\x08" + member[4:10] + name.encode() + b"\x00" + member[10:]
