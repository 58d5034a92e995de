"""`ringfence check`: says what to change in configuration files, without a broker, a web process or the source."""

import argparse
from pathlib import Path

from ringfence.local.errors import LocalError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="a worker's file or a connector's configuration, as properties, JSON or YAML",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the properties file of the workers that would run the connectors (default: the first worker's file that "
        "is checked, else the defaults)",
    )


def run(args: argparse.Namespace) -> int:
    """Print what each file is, and a line for each thing to change or to know. Returns 1 if something must be changed.

    Raises `LocalError` if no file could be read.
    """
    from ringfence.file_checks import check_files

    passed = True
    for path, reports in check_files(args.files, args.config):
        for report in [reports] if isinstance(reports, LocalError) else reports:
            passed = passed and not isinstance(report, LocalError) and report.passed
            lines = [str(report)] if isinstance(report, LocalError) else report.lines()
            print(f"{path}: {lines[0]}" if not isinstance(report, LocalError) else lines[0], *lines[1:], sep="\n")
    return 0 if passed else 1
