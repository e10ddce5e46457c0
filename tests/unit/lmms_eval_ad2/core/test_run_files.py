"""Run files: options by key, checked as on the command line, which overrides them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import ExclusiveOptions, add_command, option
from lmms_eval_ad2.core.run_files import CommandParser

PLACE = ExclusiveOptions(required=True)


@dataclass(frozen=True, kw_only=True)
class DriveOptions:
    out: Path = option("folder", positional=True)
    agent: str = option("agent")
    suite: str | None = option("routes", default=None, exclusive=PLACE)
    scenario: Path | None = option("program", default=None, exclusive=PLACE)
    frames: bool = option("save frames", default=False)
    value: tuple[str, ...] = option("of a parameter", default=(), repeated=True)
    rate_hz: float | None = option("decisions per second", default=None, least=0.1, most=20, expert=True)
    grain: Literal["off", "asked"] = option("suffixes", default="off", expert=True)
    asked: tuple[str, ...] = option("questions", default=("action",), expert=True)
    named: tuple[str, ...] = option("NAME=VALUE", default=(), repeated=True, expert=True)
    alone: bool = option("without traffic", default=False, expert=True)
    prompts: Path | None = option("file", default=None, expert=True)


def parsed(*words: str) -> DriveOptions:
    got: list[Any] = []
    parser = argparse.ArgumentParser(prog="ad2")
    add_command(parser.add_subparsers(), "drive", lambda read: got.append(read) or 0, DriveOptions)
    args = parser.parse_args(["drive", *words])
    args.func(args)
    return got[0]


def run_file(folder: Path, text: str) -> str:
    (folder / "run.yaml").write_text(text, "utf-8")
    return str(folder / "run.yaml")


def test_a_file_gives_required_options_switches_and_options_without_a_flag(tmp_path: Path) -> None:
    file = run_file(
        tmp_path,
        "agent: -x\nsuite: demo\nframes: true\nrate_hz: 5\ngrain: off\nasked: [action, reasoning]\n"
        "named: [a=1, b=2]\nalone: true\nprompts: p.yaml\n",
    )
    assert parsed("runs/a", "--config", file) == DriveOptions(
        out=Path("runs/a"), agent="-x", suite="demo", frames=True, rate_hz=5.0, asked=("action", "reasoning"),
        named=("a=1", "b=2"), alone=True, prompts=Path("p.yaml"),
    )  # fmt: skip


def test_the_command_line_overrides_files_and_later_values_earlier_ones(tmp_path: Path) -> None:
    file = run_file(tmp_path, "agent: x\nsuite: demo\nrate_hz: 5\n")
    read = parsed("runs/a", "--agent", "y", "--config", file, "--config", "rate_hz=2", "--config=grain=asked")
    assert (read.agent, read.rate_hz, read.grain) == ("y", 2.0, "asked")


def test_a_list_or_switch_of_a_file_is_replaced_not_extended(tmp_path: Path) -> None:
    first = run_file(tmp_path, "agent: a\nsuite: demo\nvalue: [a=1]\nframes: true\n")
    later = ("--config", first, "--config", "value=b=2", "--config", "frames=false")
    assert (parsed("o", *later).value, parsed("o", *later).frames) == (("b=2",), False)
    assert parsed("o", *later, "--value", "c=3", "--value=d=4").value == ("c=3", "d=4")


def test_a_repeated_option_is_given_once_for_each_value(tmp_path: Path) -> None:
    file = run_file(tmp_path, "named: [x=0]\nvalue: [x=0]\n")
    words = ("--agent", "a", "--suite", "s", "--config", file, "--config", "named=a=1", "--config", "named=b=2")
    assert parsed("o", *words).named == ("a=1", "b=2")
    assert parsed("o", *words, "--config", "value=a=1", "--config", "value=b=2").value == ("a=1", "b=2")


def test_a_shortened_flag_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("o", "--agent", "a", "--suite", "s", "--conf", "rate_hz=2")
    assert "--config: write it in full" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "expected"),
    [("grain=off", {"grain": "off"}), ("asked=[a, b]", {"asked": ("a", "b")}), ("asked=a", {"asked": ("a",)}),
     ("named=[x]=1", {"named": ("[x]=1",)}), ("alone=false", {"alone": False}), ("rate-hz=1e0", {"rate_hz": 1.0}),
     ("prompts=007", {"prompts": Path("007")})],
)  # fmt: skip
def test_one_option_as_a_key_and_its_value(value: str, expected: dict[str, Any]) -> None:
    read = parsed("o", "--agent", "a", "--suite", "s", "--config", value)
    assert {name: getattr(read, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate_hz: fast\n", "run.yaml, line 1, rate_hz: invalid float value: 'fast'"),
        ("agent: a\n\nrate_hz: 99\n", "--config rate_hz=99.0: from 0.1 to 20"),
        ("agent: a\nrate: 5\n", "run.yaml, line 2, rate: no option of ad2 drive; did you mean rate_hz?"),
        ("grain: no\n", "run.yaml, line 1, grain: invalid choice: 'no' (choose from 'off', 'asked')"),
        ("frames: 1\n", "run.yaml, line 1, frames: expected true or false, found '1'"),
        ("agent: [a, b]\n", "run.yaml, line 1, agent: expected one value, found 2"),
        ("agent: {a: b}\n", "run.yaml, line 1, agent: expected a text or a number, found {'a': 'b'}"),
        ("out: here\n", "run.yaml, line 1, out: an argument of the command line, not of a run file"),
        ("- agent\n", "run.yaml: expected options as KEY: VALUE, one per line"),
        ("agent: a\nagent: b\n", "not a readable YAML file: duplicate key 'agent'"),
    ],
)
def test_a_wrong_file_is_one_line_with_file_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = run_file(tmp_path, text)
    with pytest.raises(Ad2Error) as error:
        parsed("o", "--agent", "a", "--suite", "s", "--config", file)
    assert message in str(error.value)


def test_options_that_exclude_each_other_do_so_across_file_and_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run_file(tmp_path, "agent: a\nsuite: demo\n")
    with pytest.raises(SystemExit):
        parsed("o", "--scenario", "x.scenic", "--config", file)
    assert "not allowed with argument --suite" in capsys.readouterr().err


def test_an_option_without_a_flag_is_not_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("o", "--agent", "a", "--suite", "s", "--rate-hz", "5")
    with pytest.raises(SystemExit):
        parsed("--help")
    assert "rate" not in capsys.readouterr().out


def test_a_missing_file_is_named() -> None:
    with pytest.raises(Ad2Error, match=r"--config none\.yaml: not a readable YAML file"):
        parsed("o", "--agent", "a", "--suite", "s", "--config", "none.yaml")


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["--rate-hz", "5"], "; --rate-hz is a key: --config rate_hz=VALUE"),
     (["x", "--grain=off"], "; --grain is a key: --config grain=VALUE"), (["--agents"], ""), (["rate_hz"], "")],
)  # fmt: skip
def test_the_flag_of_an_option_without_one_names_its_key(words: list[str], expected: str) -> None:
    parser = add_command(argparse.ArgumentParser().add_subparsers(), "drive", lambda read: 0, DriveOptions)
    assert isinstance(parser, CommandParser) and parser.hint(words) == expected
