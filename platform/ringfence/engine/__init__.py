"""The worker: leader duties, reconcile loop, plugin processes and source tasks on Spark."""
