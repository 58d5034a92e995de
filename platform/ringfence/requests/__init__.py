"""What web processes and workers ask of each other: a class a request, with its answer, queue and time.

`questions` go to any worker, `commands` to the leader. `request` has the codec, `refused` what is told instead of an
answer.
"""
