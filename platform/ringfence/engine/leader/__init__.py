"""The leader's duties in a worker: its thread, commands, the reconcile loop, fencing rounds."""
