"""What every page's frame needs."""

from django.conf import settings
from django.http import HttpRequest

from ringfence import __version__

THEME_COOKIE = "ringfence_theme"


def page(request: HttpRequest) -> dict[str, object]:
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "theme": theme if theme in ("light", "dark") else "",
        "loopback": settings.LOOPBACK,
        "version": __version__,
        "user_name": getattr(request, "ringfence_user", ""),
    }
