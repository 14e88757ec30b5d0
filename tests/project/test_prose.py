"""Check that docstrings, comments, messages and documents avoid the words that CONTRIBUTING.md lists."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkafmt.log.writing.mounting import GUIDE

ROOT = Path(__file__).resolve().parents[2]

INSTEAD = {
    r"\banew\b": "re-: rebuilt, renumbered",
    r"(?<!lag )\bbehind\b": "after, past",
    r"\bbeside\b": "next to",
    r"\bhurt\b": "corrupted",
    r"\bbelieve[ds]?\b|\bbelievable\b": "trust, accept",
    r"\bsound (?:batch|record|run|message|segment|one)(?:e?s)?\b": "valid",
    r"\b(?:lies|stands|lie|stand) (?:in|at|on|there|where|next|outside|inside|between|before|after)\b": "is, starts at",
    r"\bas (?:it|they) (?:lies?|stands?)\b": "unchanged",
    r"\b(?:is|are|was|were|be|been) told\b": "reported",
    r"\bleaves? word\b|\bworth a (?:line|word)\b": "report, message",
    r"\bunder way\b": "open, in progress",
    r"\bshort ?cut\b|\bcareful way\b": "fast path, slow path",
    r"\bwhoever\b": "any caller",
    r"\bgoes on\b|\bgo on\b": "continues",
    r"\bgive[ns]? out\b": "return, deliver",
    r"^The same (?:for|of|as|but)\b": "a sentence that can be read alone",
}
"""Discouraged words as regular expressions, each with the recommended words."""

PYTHON = [
    path
    for folder in ("kafkafmt", "tests", "benchmarks", "scripts", "examples")
    for path in sorted((ROOT / folder).rglob("*.py*"))
    if path.suffix in (".py", ".pyi") and path != Path(__file__)
]
CYTHON = [p for p in sorted((ROOT / "kafkafmt").rglob("*")) if p.suffix in (".pyx", ".pxi", ".h")]
DOCUMENTS = [
    *(p for p in sorted(ROOT.glob("*.md")) if p.name != "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
    ROOT / "tests" / "golden" / "README.md",
]


def prose_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment, and of each string that contains a sentence."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def prose_of_cython(source: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        comment = re.search(r"#(?!include|define|if|endif|else|pragma|undef|error)\s*(.*)|/?\*+ (.*)|//\s*(.*)", line)
        if comment:
            yield number, next(group for group in comment.groups() if group is not None)
    for docstring in re.finditer(r'"""(.*?)"""', source, re.DOTALL):
        yield source[: docstring.start()].count("\n") + 1, docstring[1]


def discouraged(prose: Iterator[tuple[int, str]]) -> list[str]:
    """Return a line for each discouraged word, with the line number and the recommended word."""
    found = []
    for line, text in prose:
        for pattern, instead in INSTEAD.items():
            found += [f"{line}: {match[0]!r}: {instead}" for match in re.finditer(pattern, text, re.IGNORECASE)]
    return found


OFFSET_RANGE = re.compile(r"\boffsets \{[^{}]*\} to \{")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def faults(paths: list[Path], prose_of: Callable[[str], Iterator[tuple[int, str]]]) -> list[str]:
    texts = {relative(path): path.read_text(encoding="utf-8") for path in paths}
    return [f"{name}:{fault}" for name, text in texts.items() for fault in discouraged(prose_of(text))]


@pytest.mark.slow
def test_python_prose_uses_the_words_of_the_style_guide() -> None:
    assert faults(PYTHON, prose_of_python) == []


def test_cython_prose_uses_the_words_of_the_style_guide() -> None:
    assert faults(CYTHON, prose_of_cython) == []


def test_documents_use_the_words_of_the_style_guide() -> None:
    assert faults(DOCUMENTS, lambda text: enumerate(text.splitlines(), 1)) == []


def test_messages_name_offset_ranges_with_the_shared_function() -> None:
    """`offset_range` uses the singular if a range contains only one offset."""
    package = [p for p in (*PYTHON, *CYTHON) if "kafkafmt" in p.relative_to(ROOT).parts[0] and p.name != "text.py"]
    assert [relative(p) for p in package if OFFSET_RANGE.search(p.read_text(encoding="utf-8"))] == [
        "kafkafmt/records/reader.py"  # This message is about an invalid range, which `offset_range` cannot format.
    ]


def test_messages_do_not_name_files_that_only_the_repository_contains() -> None:
    """The wheel does not contain the documentation. Therefore, a message contains the title of a page of the site."""
    found = [relative(p) for p in PYTHON if p.is_relative_to(ROOT / "kafkafmt") and "docs/" in p.read_text("utf-8")]
    assert found == []
    titles = re.findall(r"^ +- ([^:\n]+): ", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert GUIDE in titles


@pytest.mark.parametrize(
    "text",
    ["The bytes behind damage.", "The index is made anew.", "Sound batches are read.", "The same for a response."],
)
def test_discouraged_reports_a_planted_sentence(text: str) -> None:
    assert len(discouraged(iter([(1, text)]))) == 1
