"""The records of fetched batches, for tests."""

from ringfence.connectors.api.fetching import FetchedBatch, Run


def run_of(batch: FetchedBatch) -> Run:
    """The records of one batch."""
    run = Run.empty(batch.topic, batch.partition)
    batch.add_to(run)
    return run
