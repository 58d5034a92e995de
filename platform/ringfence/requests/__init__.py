"""The requests between web processes and workers: one class for each, with its answer, queue and time limit.

`questions` go to any worker, `commands` to the leader. `request` has the codec; `refused` is sent in place of an
answer.
"""
