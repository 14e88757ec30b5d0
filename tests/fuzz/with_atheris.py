"""Let atheris choose the random numbers for inputs, guided by code coverage.

    pip install atheris
    python -m fuzz.with_atheris TARGET [libFuzzer's options, such as -max_total_time=600, and a corpus directory]

The bytes from libFuzzer replace the random number generator. Therefore, all targets and mutators
work unchanged. Only the Python code of kafkafmt is instrumented. For the native core, use
`fuzz.sanitized`.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any


class BytesRandom(Random):
    """Random number generator that returns the bits of a byte string, and zeros after its end."""

    def __new__(cls, _: bytes = b"") -> BytesRandom:
        return super().__new__(cls)

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        super().__init__(0)

    def getrandbits(self, k: int) -> int:
        size = (k + 7) // 8
        part = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(part.ljust(size, b"\0"), "little") >> (8 * size - k)

    def random(self) -> float:
        return self.getrandbits(53) / (1 << 53)

    def randbytes(self, n: int) -> bytes:
        return self.getrandbits(8 * n).to_bytes(n, "little") if n else b""


def main() -> None:
    import atheris

    name, *options = sys.argv[1:] or [""]
    with atheris.instrument_imports(include=["kafkafmt"]):
        from .execute import run_case
        from .target import targets
    if name not in targets():
        raise SystemExit(f"there is no target {name!r}; there are {', '.join(targets())}")
    target = targets()[name]

    def one_input(data: bytes) -> None:
        case: Any = target.make(BytesRandom(data))
        failure = run_case(target, case, ["native"]).failure
        if failure is not None and not failure.known:
            from .case import FOUND, save

            path = FOUND / f"{name}-atheris.json"
            save(case, path, name, failure.signature)
            raise AssertionError(f"{failure.text}\nsaved as {path}")

    atheris.Setup([sys.argv[0], *options], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
