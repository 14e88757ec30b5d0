"""Fuzz every parser, builder and command of kafkafmt.

    cd tests && python -m fuzz.run --seconds 60             every target for a minute
    cd tests && python -m fuzz.run --target scan --seed 7   one target
    make fuzz SECONDS=60                                    the same on a core built with ASAN and UBSAN

The modules, from the bottom up: `case` (one input), `cores` (which core is in use), `outcome` (what a call gave), `work` (counters),
`seeds` (valid inputs), `mutate_*` (invalid inputs), `target` (the registry), `targets_*` (what is called, and what must hold),
`known` (defects that are not fixed yet), `execute` (one input, both cores), `run`, `minimise`, `sanitized` and `with_atheris`.

An input is made from a random number generator, which is seeded with the target's name, the seed and the input's number. So every
failure can be repeated. A failing input is saved in `found/`; the test suite replays each file there and in `seeds/`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
