"""The pages below `/ui/docs`, for every logged-in user: they contain nothing about this installation."""

from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence.access.routes import ANYONE, PUBLIC, requires
from ringfence.web.handbook.document_order import group
from ringfence.web.handbook.documents import ADDRESS, documents, search_headings
from ringfence.web.views import is_fragment, with_token


@requires(GET=PUBLIC)
@require_safe
def lead(request: HttpRequest, name: str = "") -> HttpResponse:
    """Redirect `/docs` and `/docs/<name>`, which people type, to the pages, which require a login."""
    return HttpResponseRedirect(f"{ADDRESS}/{quote(name, safe='')}" if name else ADDRESS)


@requires(GET=ANYONE)
@require_safe
@with_token
def contents(request: HttpRequest) -> HttpResponse:
    """Show all documents; with `?search=`, the sections whose headings match."""
    search = request.GET.get("search", "").strip()[:100]
    every = documents()
    context = {
        "search": search,
        "groups": group(every.values()),
        "found": [(section, every[section.document].title) for section in search_headings(search)],
        "section": "docs",
    }
    template = "ringfence/docs/list.html" if is_fragment(request) else "ringfence/docs/list_page.html"
    return render(request, template, context)


@requires(GET=ANYONE)
@require_safe
@with_token
def document(request: HttpRequest, name: str) -> HttpResponse:
    """Show one document, with its sections beside it."""
    doc = documents().get(name)
    if doc is None:
        raise Http404(f"There is no document {name}: /ui/docs lists them all")
    sections = [section for section in doc.sections if section.level == 2]
    return render(request, "ringfence/docs/document.html", {"document": doc, "sections": sections, "section": "docs"})
