"""The navigation beside every page: five places to work, and below them settings and help. A place with several pages
shows them as tabs. Links hide pages that the user may not see; the server refuses them as well.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ringfence.access.principal import NOBODY, Principal, Verb

IsAllowed = Callable[[Principal], bool]


def _views(who: Principal) -> bool:
    return who.may_somewhere(Verb.VIEW)


def _sees_all(who: Principal) -> bool:
    return who.may_everywhere(Verb.VIEW)


def _reads(who: Principal) -> bool:
    return who.may_somewhere(Verb.VIEW_CONFIG)


def _administers(who: Principal) -> bool:
    return who.may_everywhere(Verb.ADMIN)


def _has_logged_in(who: Principal) -> bool:
    return who is not NOBODY


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a place. also: prefixes of other addresses that belong to it; known_as: other words for what is there,
    by which the palette finds it.
    """

    word: str
    address: str
    is_allowed: IsAllowed = _views
    also: tuple[str, ...] = ()
    known_as: str = ""

    def match_length(self, path: str) -> int:
        """Return how many characters of the path this page matches; -1 for no match."""
        exact = len(path) if path.rstrip("/") == self.address.rstrip("/") else -1
        prefixes = [one for one in (self.address, *self.also) if one != HOME]
        return max([exact, *(len(one) for one in prefixes if path == one or path.startswith(f"{one}/"))])


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation. key: pressed after `g` on the keyboard; pages: its link leads to the first that the
    user may see.
    """

    word: str
    icon: str
    key: str
    pages: tuple[Page, ...]


HOME = "/ui/"
PLACES = (
    Place(
        "Home",
        "layout-dashboard",
        "h",
        (Page("Home", HOME, also=("/ui/stuck", "/ui/waiting"), known_as="overview stuck operations"),),
    ),
    Place(
        "Connectors", "plug", "c", (Page("Connectors", "/ui/connectors", also=("/ui/new",), known_as="sources tasks"),)
    ),
    Place(
        "Data",
        "database",
        "d",
        (
            Page("Topics", "/ui/topics", known_as="records data browser messages"),
            Page("Consumer groups", "/ui/consumer-groups", known_as="lag readers offsets"),
            Page("Share groups", "/ui/share-groups", known_as="queues"),
        ),
    ),
    Place(
        "Incidents",
        "bell",
        "i",
        (
            Page("Open", "/ui/incidents", known_as="incidents alerts problems"),
            Page("Rules", "/ui/incidents/rules", _sees_all, known_as="alert rules"),
            Page(
                "Destinations",
                "/ui/incidents/destinations",
                _sees_all,
                known_as="alerts slack teams pagerduty opsgenie mail webhook notifications",
            ),
            Page("Silences", "/ui/incidents/silences", known_as="mute"),
        ),
    ),
    Place(
        "Cluster",
        "server",
        "w",
        (
            Page("Workers and slots", "/ui/workers", also=("/ui/leader",), known_as="leader members"),
            Page("Open transactions", "/ui/transactions", known_as="hanging blocked"),
            Page("Plugins", "/ui/plugins", known_as="install upload wheel jar"),
            Page("Kafka's address", "/ui/kafka", known_as="bootstrap servers brokers client properties kcctl"),
        ),
    ),
)
"""Where people work. To add a page to the navigation, add one line here."""
BELOW = (
    Place(
        "Settings",
        "settings",
        "s",
        (
            Page("People", "/ui/settings/people", _administers, known_as="accounts users password login"),
            Page("Roles", "/ui/settings/roles", _administers, known_as="grants permissions rights access"),
            Page("Tokens", "/ui/settings/tokens", _administers, known_as="api keys secrets"),
            Page("Sessions", "/ui/settings/sessions", _has_logged_in, known_as="logged in logout devices"),
            Page("Audit trail", "/ui/settings/audit", _reads, known_as="who did what history changes"),
        ),
    ),
    Place(
        "Help",
        "book-open",
        "?",
        (
            Page("Documentation", "/ui/docs", _has_logged_in, known_as="help manual"),
            Page("REST API", "/api/docs", _has_logged_in, known_as="swagger openapi"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A place as this user sees it, on the page that it is shown on. current: the place or the page is where the user
    is; pages: with whether each is the current one.
    """

    place: Place
    address: str
    current: bool
    pages: Sequence[tuple[Page, bool]]


@dataclass(frozen=True, slots=True)
class Navigation:
    """tabs: the pages of the current place, if the user is on one of them and there are several."""

    main: Sequence[Entry]
    below: Sequence[Entry]

    @property
    def tabs(self) -> Sequence[tuple[Page, bool]]:
        entries = [*self.main, *self.below]
        return next((one.pages for one in entries if len(one.pages) > 1 and any(here for _, here in one.pages)), ())


def find_navigation(who: Principal, path: str) -> Navigation:
    """Return what the user may see. At most one place, and one page, is current."""
    lengths = {page: page.match_length(path) for place in (*PLACES, *BELOW) for page in place.pages}
    best = max(lengths.values())
    here = next((page for page, length in lengths.items() if length == best >= 0), None)
    return Navigation(tuple(_entries(PLACES, who, path, here)), tuple(_entries(BELOW, who, path, here)))


def _entries(places: Sequence[Place], who: Principal, path: str, here: Page | None) -> Iterator[Entry]:
    for place in places:
        pages = [page for page in place.pages if page.is_allowed(who)]
        if pages:
            page_marks = [(page, page.address.rstrip("/") == path.rstrip("/")) for page in pages]
            yield Entry(place, pages[0].address, here in place.pages, page_marks)
