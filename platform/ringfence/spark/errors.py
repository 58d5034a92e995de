"""What the sink raises into the streaming query; each message ends with the remedy."""


class SinkError(Exception):
    """The batch was not written as a whole. Nothing of it is there twice; a restart of the query goes on with it."""


class RepeatDiffers(SinkError):
    """Spark repeated a batch with other rows than those that are written."""


class Superseded(SinkError):
    """Another run of the same sink has started since: this one can write nothing any more."""
