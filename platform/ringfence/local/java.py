"""Finds a Java that is new enough for Kafka and Spark."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from ringfence.local.errors import LocalError

MINIMUM = 17
REMEDY = "install it (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@cache
def find_java() -> Path:
    """Return the `java` that Spark would use, too: that of JAVA_HOME, else the first on the PATH.

    Raises LocalError if there is none or it is older than Java 17. The result is cached for the process.
    """
    java = java_path()
    version = _version(java)
    if version < MINIMUM:
        raise LocalError(f"Java {MINIMUM} or newer is needed, {java} is Java {version}: {REMEDY}")
    return java


def java_path() -> Path:
    """Do the same as `find_java`, without checking the version. Raises LocalError if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        # No fallback to the PATH: Spark uses only JAVA_HOME, so the two would differ later, with a less clear error.
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise LocalError(
                f"JAVA_HOME is {home}, which does not contain bin/java: set it to a Java {MINIMUM}, or unset it"
            )
        return java
    path = shutil.which("java")
    if path is None:
        raise LocalError(f"Java {MINIMUM} or newer is needed, but none was found: {REMEDY}")
    return Path(path)


def _version(java: Path) -> int:
    answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    match = _VERSION.search(answer.stderr + answer.stdout)
    if match is None:
        raise LocalError(f"`{java} -version` does not print a version (exit code {answer.returncode}): {REMEDY}")
    return int(match.group(1))
