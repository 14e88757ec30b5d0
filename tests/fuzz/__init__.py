"""Fuzz every parser, builder and command of kafkafmt.

    cd tests && python -m fuzz.run --seconds 60             every target for a minute
    cd tests && python -m fuzz.run --target scan --seed 7   one target
    make fuzz SECONDS=60                                    every target on a core built with ASAN and UBSAN

The modules, starting with the lowest: `case` (one input), `cores` (selection of the core),
`outcome` (result of a call), `work` (counters), `seeds` (valid inputs), `mutate_*` (invalid
inputs), `target` (the registry), `targets_*` (the checks), `known` (defects that are not fixed
yet), `execute` (one input, both cores), `run`, `minimise`, `sanitized` and `with_atheris`.

An input is made from a random number generator, which is seeded with the target's name, the seed
and the input's number. So every failure can be repeated. A failing input is saved in `found/`. The
test suite replays each file in `found/` and in `seeds/`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
