"""Build the native core. pyproject.toml contains all other properties of the package.

The native core is one extension module, `kafkafmt._core`. If it cannot be compiled, kafkafmt is
built without it, and uses the pure-Python core, which is many times slower. The build then prints
the reason on stderr, which pip shows only with -v. The reason is also stored in a file of the
package, so that `kafkafmt --version` and the warning at run time contain it.

If KAFKAFMT_REQUIRE_NATIVE=1 is set, as in CI, a missing native core is an error. If KAFKAFMT_PURE=1
is set, nothing is compiled. This builds the wheel for machines without a compiler.
"""

import os
import sys
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError


def is_set(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


REQUIRE_NATIVE, PURE = is_set("KAFKAFMT_REQUIRE_NATIVE"), is_set("KAFKAFMT_PURE")

REMEDY = "Install a C compiler and Python's headers (Debian, Ubuntu: apt-get install gcc python3-dev) and build again."
PURE_WHEEL = "this is the wheel for any platform, which has no native core; install the wheel for this platform, or build from the source"
RECORD = "native_core.txt"
"""File in the package with the reason why the native core was not built. kafkafmt/_backend.py reads it."""

# These options harden the native core. They do not reduce its speed.
# Older compilers treat level 3 as level 2, which does not check sizes that are known only at run time.
COMPILE = [
    "-O3",
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=3",
]  # -march is not set, because the core detects the features of the processor at run time
LINK = ["-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack"] if sys.platform == "linux" else []
WINDOWS = sys.platform == "win32"


def shout(reason: object) -> None:
    lines = ["kafkafmt: THE NATIVE CORE WAS NOT BUILT.", f"Reason: {one_line(reason)}"]
    lines += (
        [REMEDY]
        if REQUIRE_NATIVE
        else ["kafkafmt will use its pure-Python core, which has the same results but is many times slower.", REMEDY]
    )
    rule = "*" * max(map(len, lines))
    print("", rule, *lines, rule, "", sep="\n", file=sys.stderr, flush=True)


def one_line(reason: object) -> str:
    return " ".join(str(reason).split())


class BuildPython(build_py):
    """Build step that stores the reason for the missing native core if nothing was compiled."""

    reason = ""

    def run(self) -> None:
        super().run()
        if self.reason and not self.editable_mode:
            write_record(self.build_lib, self.reason)


class BuildCore(build_ext):
    """Build step that reports a failure to compile the native core. setuptools would ignore the failure."""

    def build_extensions(self) -> None:
        linker = getattr(self.compiler, "linker_so", None)
        if linker:  # remove library search paths of Python's build, because the core needs only libc
            self.compiler.linker_so = [flag for flag in linker if not flag.startswith(("-Wl,-rpath", "-Wl,-R"))]
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            shout(error)
            for stale in {self.get_ext_fullpath(ext.name), self.inplace_path(ext)}:
                if os.path.exists(stale):  # the result of an earlier build must not be used
                    os.remove(stale)
            if not self.inplace:
                write_record(self.build_lib, f"the native core was not built: {one_line(error)}. {REMEDY}")
            # setuptools continues without an optional extension only after this error.
            raise CompileError(str(error)) from error

    def inplace_path(self, ext: Extension) -> str:
        return os.path.join(*ext.name.split(".")[:-1], os.path.basename(self.get_ext_filename(ext.name)))


def write_record(build_lib: str, reason: str) -> None:
    folder = os.path.join(build_lib, "kafkafmt")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, RECORD), "w", encoding="utf-8") as file:
        file.write(reason + "\n")


def native_core() -> list[Extension]:
    if PURE:
        BuildPython.reason = PURE_WHEEL
        return []
    try:
        from Cython.Build import cythonize
    except ImportError as error:
        shout(error)
        if REQUIRE_NATIVE:
            raise SystemExit(1) from None
        BuildPython.reason = f"the native core was not built: {one_line(error)}. Install Cython and build again."
        return []
    core = Extension(
        "kafkafmt._core",
        ["kafkafmt/_core.pyx"],
        depends=["setup.py", *sorted(glob("kafkafmt/_corelib/*"))],
        include_dirs=["kafkafmt"],
        extra_compile_args=["/O2"] if WINDOWS else COMPILE,
        extra_link_args=[] if WINDOWS else LINK,
    )
    (core,) = cythonize([core], language_level=3)
    core.optional = not REQUIRE_NATIVE  # set this after cythonize(), which would discard it
    return [core]


setup(ext_modules=native_core(), cmdclass={"build_ext": BuildCore, "build_py": BuildPython})
