"""The errors a plugin raises on purpose."""


class ConnectorError(Exception):
    """The connector or task cannot go on. It becomes FAILED, with this message and its trace in the status."""


class RetriableError(ConnectorError):
    """The same call may succeed a moment later: `poll` is called again after a pause, nothing is aborted."""
