"""The suggestions of an empty installation."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from ringfence.http.section_links import Reference
from ringfence.web.new.field import SETTING


@dataclass(frozen=True, slots=True)
class Start:
    """A suggested first connector. class_name: as users write it; settings: in addition to the plugin's sample;
    command: to run first, "" for none; topic: where the records go, "" if the source decides.
    """

    title: str
    icon: str
    about: str
    class_name: str
    name: str
    more: Reference
    settings: tuple[tuple[str, str], ...] = ()
    command: str = ""
    topic: str = ""

    @property
    def address(self) -> str:
        """The address of the prefilled form."""
        fields = [(SETTING + name, value) for name, value in self.settings]
        return "/ui/new?" + urlencode([("class", self.class_name), ("sample", "1"), ("name", self.name), *fields])


STARTS: Final = (
    Start(
        "A text file",
        "file-text",
        "Every line becomes a record, and lines that are appended follow. Nothing to install.",
        "FileStreamSource",
        "lines",
        Reference("connectors#filestreamsource", "FileStreamSource"),
        (("file", "/tmp/lines.txt"), ("topic", "lines")),  # noqa: S108 - `ringfence up` lets configurations read there
        "printf 'one\\ntwo\\nthree\\n' > /tmp/lines.txt",
        "lines",
    ),
    Start(
        "A PostgreSQL database",
        "database",
        "The rows of its tables, and then each change, by logical replication. The form checks the server and lists "
        "its tables.",
        "PostgresSource",
        "shop",
        Reference("postgres#five-minutes-to-the-first-table", "Five minutes to the first table"),
    ),
    Start(
        "A REST API",
        "app-window",
        "Pages of JSON, requested as often as you choose. The preview shows its rows before anything is written.",
        "DltSource",
        "orders",
        Reference("dlt#five-minutes-to-the-first-record", "REST APIs"),
    ),
)
