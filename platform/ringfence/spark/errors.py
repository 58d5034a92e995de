"""Errors that the sink raises into the streaming query. Each message ends with the remedy."""


class SinkError(Exception):
    """The batch was not written completely. None of it is duplicated; a restarted query continues with it."""


class RepeatDiffers(SinkError):
    """Spark repeated a batch with other rows than those that are written."""


class Superseded(SinkError):
    """Another run of the same sink has started since: this one can no longer write."""
