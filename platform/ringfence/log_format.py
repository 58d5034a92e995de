"""The form of log lines: text, or one JSON object a line (`RINGFENCE_LOG_FORMAT=json`), with the request's id.

Web and worker set it up; plugin processes and the processes of tasks follow them by the same variable.
"""

import argparse
import json
import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from ringfence.fencing import request_context
from ringfence.fencing.topics.connector_logs import current_connector

VARIABLE: Final = "RINGFENCE_LOG_FORMAT"
_LEVEL: Final = "RINGFENCE_LOG_LEVEL"
FORMATS: Final = ("text", "json")
FIELDS: Final = "fields"
"""The attribute of a log record with more fields for JSON: `log.info(…, extra={FIELDS: {…}})`."""
_JSON: Final = "json"

_of_process: dict[str, object] = {}


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default=None,
        help=f"write log lines as text, or each as a JSON object (default: ${VARIABLE} or text)",
    )


def choose(flag: str | None) -> None:
    """Set the format for this process and those that it starts. flag: as given; None: as the variable says."""
    if flag is not None:
        os.environ[VARIABLE] = flag


def is_json(environment: Mapping[str, str] = os.environ) -> bool:
    return environment.get(VARIABLE, "").strip().lower() == _JSON


def least_level(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the least level that is logged."""
    return environment.get(_LEVEL, "").strip().upper() or "INFO"


def describe_process(**fields: object) -> None:
    """Set the fields that each JSON line of this process has."""
    _of_process.clear()
    _of_process.update(fields)


class TextFormatter(logging.Formatter):
    """A line of text, with the id of the request that the thread works for, and without secrets."""

    def __init__(self, prefix: str = "", redact: Callable[[str], str] = str) -> None:
        super().__init__(f"%(asctime)s %(levelname)s {prefix}%(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line, request = super().formatMessage(record), request_context.current().id
        return f"{line} request={request}" if request else line


class JsonFormatter(logging.Formatter):
    """An object a line: time (UTC), level, logger, message; process fields, request_id, trace_id, connector; error."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        request = request_context.current()
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, object] = {
            "time": at,
            "level": record.levelname,
            "logger": record.name,
            "message": self._redact(record.getMessage()),
            "thread": record.threadName,
            **_of_process,
        }
        if connector := current_connector():
            line["connector"] = connector
        if request.id:
            line["request_id"] = request.id
        if request.trace:
            line["trace_id"] = request.trace.split("-")[1]
        line |= getattr(record, FIELDS, {})
        if record.exc_info:
            line["error"] = self._redact(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = self._redact(self.formatStack(record.stack_info))
        return json.dumps(line, ensure_ascii=False, default=str)


def formatter(prefix: str = "", redact: Callable[[str], str] = str) -> logging.Formatter:
    """Return the formatter of this process. prefix: stands before the logger in text; redact: takes secrets out."""
    return JsonFormatter(redact) if is_json() else TextFormatter(prefix, redact)


def write_to_stderr(level: str | int, prefix: str = "", redact: Callable[[str], str] = str) -> logging.Handler:
    """Log to standard error, unless this process logs somewhere already. Return the handler."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(prefix, redact))
    logging.basicConfig(level=level, handlers=[handler])
    return handler
