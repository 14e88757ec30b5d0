"""Check that `grows_linearly` fails for quadratic work."""

from __future__ import annotations

import pytest

from kafkafmt.log.findings.models import Damage

from .growth import grows_linearly, lines_of


def test_quadratic_work_is_detected() -> None:
    grows_linearly(100, lambda n: n + 3)
    with pytest.raises(AssertionError, match=r"4\.0 times"):
        grows_linearly(100, lambda n: n * n)


def test_comparisons_of_dataclasses_are_counted() -> None:
    spans = [Damage("f", i, 1, None, None, "e", "m") for i in range(50)]
    assert lines_of(lambda: [s for s in spans if s not in spans[:25]]).total() > 25 * 25
