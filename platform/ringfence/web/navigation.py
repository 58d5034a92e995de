"""The navigation beside every page. Links hide pages that the user may not see; the server refuses them as well."""

from collections.abc import Callable
from dataclasses import dataclass

from ringfence.access.principal import NOBODY, Principal
from ringfence.access.verbs import Verb

IsAllowed = Callable[[Principal], bool]


def _views(who: Principal) -> bool:
    return who.may_somewhere(Verb.VIEW)


def _reads(who: Principal) -> bool:
    return who.may_somewhere(Verb.VIEW_CONFIG)


def _administers(who: Principal) -> bool:
    return who.may_everywhere(Verb.ADMIN)


def _has_logged_in(who: Principal) -> bool:
    return who is not NOBODY


@dataclass(frozen=True, slots=True)
class Link:
    """key: pressed after `g` on the keyboard. also: prefixes of other addresses that belong to it."""

    word: str
    address: str
    icon: str
    is_allowed: IsAllowed
    key: str = ""
    also: tuple[str, ...] = ()

    def match_length(self, path: str) -> int:
        """Return how many characters of the path this link matches; -1 for no match."""
        own = self.address.rstrip("/") if self.address.count("/") > 2 or not self.address.endswith("/") else ""
        exact = len(path) if path.rstrip("/") == self.address.rstrip("/") else -1
        prefixes = [prefix for prefix in (own, *self.also) if prefix]
        return max([exact, *(len(one) for one in prefixes if path == one or path.startswith(f"{one}/"))])


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    links: tuple[Link, ...]


GROUPS = (
    Group(
        "",
        (
            Link("Overview", "/ui/", "layout-dashboard", _views, "o"),
            Link(
                "Connectors", "/ui/connectors", "plug", _views, "c", ("/ui/new", "/ui/plugins", "/console/connectors")
            ),
            Link("Topics", "/ui/topics", "database", _views, "t"),
            Link("Consumer groups", "/ui/consumer-groups", "book-open", _views),
            Link("Share groups", "/ui/share-groups", "layers", _views, "s", ("/console/share-groups",)),
            Link("Workers", "/ui/workers", "server", _views, "w", ("/console/workers", "/console/leader")),
            Link("Alerts", "/ui/alerts", "bell", _views, "l"),
        ),
    ),
    Group(
        "Operate",
        (
            Link("Operations", "/console/", "shield", _has_logged_in, "a"),
            Link("Transactions", "/console/transactions/", "chart-bar", _views),
            Link("Stuck operations", "/console/stuck/", "hourglass", _views, also=("/console/waiting",)),
        ),
    ),
    Group(
        "Access",
        (
            Link("Accounts", "/console/auth/user/", "users", _administers, also=("/console/accounts",)),
            Link("Roles", "/console/access/grant/", "key-round", _administers, also=("/console/grants",)),
            Link("Tokens", "/console/access/token/", "ticket", _administers, also=("/console/tokens",)),
            Link("Sessions", "/console/sessions/", "monitor-smartphone", _has_logged_in),
        ),
    ),
    Group("Audit", (Link("Audit trail", "/console/audit/auditentry/", "history", _reads),)),
    Group("Help", (Link("Documentation", "/ui/docs", "file-text", _has_logged_in),)),
)
"""To add a page to the navigation, add one line here."""


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """A link as this user sees it."""

    link: Link
    current: bool


def navigation(who: Principal, path: str) -> list[tuple[str, list[NavigationLink]]]:
    """Return titles and links that the user may see. At most one link is current."""
    visible_groups = [(group.title, [link for link in group.links if link.is_allowed(who)]) for group in GROUPS]
    matches = {link.address: link.match_length(path) for _, links in visible_groups for link in links}
    best = max(matches.values(), default=-1)
    here = next((address for address, length in matches.items() if length == best >= 0), None)
    return [
        (title, [NavigationLink(link, link.address == here) for link in links])
        for title, links in visible_groups
        if links
    ]
