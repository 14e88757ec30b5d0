"""Build the native core; everything else about the package is in pyproject.toml.

The core is one extension module, `kafkafmt._core`. If it cannot be compiled, the package is built without it and works on the pure
core, many times slower. A box on stderr says so, but pip shows it only with -v; so the reason is also written into the package, and
the warning at run time and `kafkafmt --version` show it. With KAFKAFMT_REQUIRE_NATIVE=1 (CI, wheels) it is an error instead. With
KAFKAFMT_PURE=1 nothing is compiled: that makes the wheel for machines without a compiler.
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
PURE_WHEEL = "this is the wheel for any platform, which has no native core; install the wheel for this one, or build from the source"
RECORD = "native_core.txt"
"""In the package: why there is no native core. kafkafmt/_backend.py reads it."""

# Hardening. The core needs nothing but libc, so a search path for libraries would only name directories of the build machine.
# Level 3 of FORTIFY adds the sizes that are known only at run time; an older compiler takes it for level 2. Neither costs speed here.
COMPILE = [
    "-O3",
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=3",
]  # no -march: the processor is asked at run time
LINK = ["-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack"] if sys.platform == "linux" else []
WINDOWS = sys.platform == "win32"


def shout(reason: object) -> None:
    lines = ["kafkafmt: THE NATIVE CORE WAS NOT BUILT.", f"Reason: {one_line(reason)}"]
    lines += [REMEDY] if REQUIRE_NATIVE else ["Going on with the pure core: same results, many times slower.", REMEDY]
    rule = "*" * max(map(len, lines))
    print("", rule, *lines, rule, "", sep="\n", file=sys.stderr, flush=True)


def one_line(reason: object) -> str:
    return " ".join(str(reason).split())


class BuildPython(build_py):
    """Records why there is no native core, if nothing is to be compiled at all."""

    reason = ""

    def run(self) -> None:
        super().run()
        if self.reason and not self.editable_mode:
            write_record(self.build_lib, self.reason)


class BuildCore(build_ext):
    """setuptools ignores the failure of an optional extension in silence; this class reports and records it."""

    def build_extensions(self) -> None:
        linker = getattr(self.compiler, "linker_so", None)
        if linker:  # Python's own flags, which can have the directory of the Python that builds
            self.compiler.linker_so = [flag for flag in linker if not flag.startswith(("-Wl,-rpath", "-Wl,-R"))]
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            shout(error)
            for stale in {self.get_ext_fullpath(ext.name), self.inplace_path(ext)}:
                if os.path.exists(stale):  # an older build must not pass for this one
                    os.remove(stale)
            if not self.inplace:
                write_record(self.build_lib, f"the native core was not built: {one_line(error)}. {REMEDY}")
            raise CompileError(
                str(error)
            ) from error  # the one kind that is ignored whatever the compiler's trouble was

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
    core.optional = not REQUIRE_NATIVE  # set here, since cythonize would drop it
    return [core]


setup(ext_modules=native_core(), cmdclass={"build_ext": BuildCore, "build_py": BuildPython})
