"""The names of connectors on a page."""

import re
from typing import Any

from tests.support.pages import text


def names_of(response: Any) -> list[str]:
    """The connectors of a list, in the order shown."""
    return re.findall(r'<a href="/ui/connectors/[^"]+">([^<]+)</a>', text(response))
