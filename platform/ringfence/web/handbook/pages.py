"""The pages below `/ui/docs`, for every logged-in user: they contain nothing about this installation."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence.access.authorise import ANYONE, PUBLIC, requires
from ringfence.web.handbook.documents import ADDRESS, Document, documents, search_headings
from ringfence.web.views import is_fragment, with_token

GROUPS: Final = {
    "Learn": ("new-connector", "pages", "writing-a-connector"),
    "Connect a source": (
        "postgres", "sql", "files", "webhooks", "dlt", "kafka-connect-plugins", "share-groups", "big-tables", "pyspark",
        "spark-sink",
    ),
    "Run it": (
        "deployment", "kubernetes", "operations", "upgrades", "monitoring", "access", "alerts", "gitops",
        "dead-letters", "backup", "disaster-recovery",
    ),
    "Look up": ("connectors", "command-line", "rest-api", "api-v1", "glossary"),
    "Understand": ("exactly-once", "benchmarks"),
}  # fmt: skip
"""Names of documents by what a reader wants, and in the order in which readers need them."""


def group(documents: Iterable[Document]) -> list[tuple[str, list[Document]]]:
    """Return the title of each group with its documents."""
    by_name = {document.name: document for document in documents}
    groups = [(title, [by_name[name] for name in names if name in by_name]) for title, names in GROUPS.items()]
    return [(title, members) for title, members in groups if members]


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
