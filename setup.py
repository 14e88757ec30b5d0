"""Builds the native core; everything else about the package is in pyproject.toml.

The core is one extension module, `kafkafmt._core`. Where it cannot be compiled, the package is built without it and works on the
pure core, many times slower: this is said in a box on stderr, and once more at run time. With KAFKAFMT_REQUIRE_NATIVE=1 (CI,
wheels) it is an error instead.
"""

import os
import sys
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

REQUIRE_NATIVE = os.environ.get("KAFKAFMT_REQUIRE_NATIVE", "0") not in ("", "0")

REMEDY = "Install a C compiler and Python's headers (Debian, Ubuntu: apt-get install gcc python3-dev) and build again."


def shout(reason: object) -> None:
    lines = ["kafkafmt: THE NATIVE CORE WAS NOT BUILT.", f"Reason: {' '.join(str(reason).split())}"]
    lines += [REMEDY] if REQUIRE_NATIVE else ["Going on with the pure core: same results, many times slower.", REMEDY]
    rule = "*" * max(map(len, lines))
    print("", rule, *lines, rule, "", sep="\n", file=sys.stderr, flush=True)


class BuildCore(build_ext):
    """setuptools passes over the failure of an optional extension in silence; we do not."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            shout(error)
            for stale in {self.get_ext_fullpath(ext.name), self.inplace_path(ext)}:
                if os.path.exists(stale):  # an older build must not pass for this one
                    os.remove(stale)
            raise CompileError(str(error)) from error  # the one kind that is passed over whatever the compiler's trouble was

    def inplace_path(self, ext: Extension) -> str:
        return os.path.join(*ext.name.split(".")[:-1], os.path.basename(self.get_ext_filename(ext.name)))


def native_core() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError as error:
        shout(error)
        if REQUIRE_NATIVE:
            raise SystemExit(1) from None
        return []
    core = Extension(
        "kafkafmt._core",
        ["kafkafmt/_core.pyx"],
        depends=["setup.py", *sorted(glob("kafkafmt/_corelib/*"))],
        include_dirs=["kafkafmt"],
        extra_compile_args=["/O2"] if sys.platform == "win32" else ["-O3"],  # no -march: the core looks at the processor at run time
    )
    (core,) = cythonize([core], language_level=3)
    core.optional = not REQUIRE_NATIVE  # set here, since cythonize would drop it
    return [core]


setup(ext_modules=native_core(), cmdclass={"build_ext": BuildCore})
