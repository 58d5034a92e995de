"""Everything about the package stands in pyproject.toml, but for this: a wheel carries the Java part, compiled."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent / "platform"))


class WithJavaHost(build_py):
    """Compiles the Java part into the wheel, from sources that stay out of it."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:  # `make setup` compiles it for a checkout
            return
        from ringfence.local.cache import cache_root
        from ringfence.local.java_host import make

        make(Path(self.build_lib) / "ringfence" / "connectors" / "java", cache_root())


setup(cmdclass={"build_py": WithJavaHost})
