"""The subcommands of `ringfence`, one module each: `add_arguments(parser)` and `run(args)`; listed in ringfence.cli."""
