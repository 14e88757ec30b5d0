"""Test the commands `help`, `completion` and `doctor`, the option -V, and completion by the shell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from command import inside, kafkafmt
from golden_cases import GOLDEN

import kafkafmt as k
from kafkafmt.cli.main import COMMANDS
from kafkafmt.support import extras, installation
from kafkafmt.support.java import SparkMissingError

LOG = GOLDEN / "kafka-4.3.1" / "internal" / "log"


def complete(*words: str) -> list[str]:
    """Return the completions of the last word, as click returns them to bash: `type,value`."""
    request = {"_KAFKAFMT_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "kafkafmt"], capture_output=True, text=True, check=True, env=os.environ | request
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_options_views_and_paths_are_completed() -> None:
    assert complete("kafkafmt", "me") == ["plain,metadata"]
    assert complete("kafkafmt", "verify", "--sh") == ["plain,--shallow"]
    assert complete("kafkafmt", "metadata", str(LOG), "to") == ["plain,topics"]
    assert complete("kafkafmt", "cat", "some/pa") == ["file,some/pa"]
    assert complete("kafkafmt", "ls", str(LOG), "-t", "s") == ["plain,sink", "plain,source"]
    assert complete("kafkafmt", "ls", "/missing", "-t", "s") == []


def test_values_of_options_are_completed() -> None:
    assert complete("kafkafmt", "cat", "--format", "t") == ["plain,text", "plain,tsv"]
    assert complete("kafkafmt", "make", "--codec", "z") == ["plain,zstd"]
    assert complete("kafkafmt", "export", "--columns", "o") == ["plain,offset"]
    assert complete("kafkafmt", "export", "--columns", "offset,k") == ["plain,offset,key"]


def test_help_completes_commands() -> None:
    assert complete("kafkafmt", "help", "me") == ["plain,metadata"]
    assert complete("kafkafmt", "help", "cat", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    done = inside("completion", shell)
    assert done.returncode == 0
    assert f"_KAFKAFMT_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.stdout, text=True, check=True)


def test_bash_completes_a_command_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "kafkafmt"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkafmt "$@"\n')
    program.chmod(0o755)
    script = inside("completion", "bash").stdout
    ask = "COMP_WORDS=(kafkafmt sal); COMP_CWORD=1; _kafkafmt_completion kafkafmt; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout.strip() == "salvage"


def test_script_for_fish_keeps_commas_in_values() -> None:
    script = inside("completion", "fish").stdout
    assert 'string split --max 1 ","' in script
    if not shutil.which("fish"):
        return
    # The answer of kafkafmt is replaced, because fish needs a terminal to complete a command line.
    answer = "function env; echo plain,offset,key; end"
    done = subprocess.run(
        ["fish", "-c", f"{script}\n{answer}\n_kafkafmt_completion"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "offset,key"


def test_completion_of_an_unknown_shell_is_refused() -> None:
    done = inside("completion", "tcsh")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "help"])
def test_help_command_prints_the_help_of_the_command(name: str) -> None:
    done = inside("help", name)
    assert done.returncode == 0
    assert done.stdout == inside(name, "--help").stdout


def test_help_command_describes_diff_and_lists_commands() -> None:
    assert inside("help", "metadata", "diff").stdout == inside("metadata", "diff", "--help").stdout
    assert inside("help").stdout == inside("--help").stdout
    done = inside("help", "salvag")
    assert (done.returncode, "did you mean salvage?" in done.stderr) == (2, True)


def test_short_option_prints_the_version() -> None:
    assert inside("-V").stdout == inside("--version").stdout


def test_doctor_lists_core_packages_and_uses() -> None:
    found = json.loads(kafkafmt("doctor", "--format", "json", backend="pure").stdout)
    assert (found["core"], found["packages"]["numpy"]) == ("pure", version("numpy"))
    assert {e["name"] for e in found["extras"]} == set(extras.EXTRAS)
    assert [u["name"] for u in found["uses"]] == list(installation.USES)
    assert found.keys() == k.doctor().to_dict().keys()
    text = inside("doctor").stdout
    assert f"numpy          {version('numpy')}\n" in text


def test_doctor_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def versions(names: list[str]) -> dict[str, str | None]:
        return {name: {"polars": None, "pyarrow": "13.0.0"}.get(name, "999") for name in names}

    monkeypatch.setattr(installation, "library_versions", versions)
    monkeypatch.setattr(installation, "find_java", no_java)
    found = k.doctor()
    states = {e.name: (e.ready, e.install) for e in found.extras}
    assert states["polars"] == (False, "pip install 'polars>=1.34' 'pyarrow>=14'")
    assert states["arrow"] == (False, "pip install 'pyarrow>=14'")
    assert states["cli"] == (True, None)
    uses = {u.name: (u.ready, u.missing) for u in found.uses}
    assert uses["kafkafmt export --engine spark"] == (False, ("spark", "java"))
    assert uses["kafkafmt export --engine local"] == (False, ("arrow",))
    assert uses["kafkafmt COMMAND"] == (True, ())
    assert (found.java.ready, found.java.problem) == (False, "no Java; install one")
    text = inside("doctor").stdout
    assert "Java: no Java; install one\n" in text
    assert "pip install 'polars>=1.34' 'pyarrow>=14'" in text


def no_java() -> Path:
    raise SparkMissingError("no Java; install one")


@pytest.mark.parametrize(
    ("installed", "met"),
    [("14", True), ("14.0.1", True), ("13.9", False), ("15.dev0", True), ("2", False), ("", False)],
)
def test_requirement_is_compared_by_its_numbers(monkeypatch: pytest.MonkeyPatch, installed: str, met: bool) -> None:
    monkeypatch.setattr(installation, "library_versions", lambda names: dict.fromkeys(names, installed))
    assert installation._met("pyarrow>=14") is met
