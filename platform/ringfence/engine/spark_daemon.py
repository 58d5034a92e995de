"""Spark's Python daemon with the Kafka client loaded before it forks: every task shares those pages."""

from pyspark import daemon

import connectors.plugins  # noqa: F401
import ringfence.engine.task_host  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
