"""Options as dataclass fields: what the parser accepts, what the command gets, what belongs to a run's identity."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import ExclusiveOptions, add_command, fixed, identity_of, option

KIND = ExclusiveOptions(required=True)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    model: str = option("the model", metavar="SPEC", identity=("model", "prompts"))
    size: int = option("of its pictures", default=3, least=1, most=9)
    camera: Literal["front", "all"] | None = option("what it sees", default=None, identity="camera")
    seed: int = fixed(0)


@dataclass(frozen=True, kw_only=True)
class RunOptions(ModelOptions):
    files: tuple[Path, ...] = option("input", metavar="FILE", positional=True)
    suite: str | None = option("routes", default=None, exclusive=KIND, identity="suite")
    scenario: Path | None = option("a program", default=None, exclusive=KIND, identity="suite")
    set: tuple[str, ...] = option("values", default=(), repeated=True)
    pair: tuple[str, str] | None = option("two names", default=None, metavar=("A", "B"))
    scale: Literal[5, 10] = option("of scores", default=10)
    ratio: float | None = option("a share", default=None, least=0)
    name: str | None = option("stored under it", default=None, flag="--as")
    no_traffic: bool = option("no vehicles", default=False)
    routes: tuple[str, ...] = option("of the suite", default=(), needs="suite")
    loops: int = option("of the program", default=1, least=1, needs="scenario")
    seed: int = option("of sampling", default=0, identity="seed")


REQUIRED = ("f", "--model", "m", "--suite", "s")


def parsed(*words: str) -> RunOptions:
    return _run(words, RunOptions)


def _run(words: Sequence[str], options: type) -> Any:
    got: list[Any] = []
    parser = argparse.ArgumentParser()
    groups = {"model": (ModelOptions,)}
    add_command(parser.add_subparsers(), "run", lambda read: got.append(read) or 0, options, groups, help="runs")
    args = parser.parse_args(["run", *words])
    assert args.func(args) == 0
    return got[0]


def test_omitted_options_have_their_defaults() -> None:
    assert parsed(*REQUIRED) == RunOptions(files=(Path("f"),), model="m", suite="s")


def test_values_of_every_type_are_parsed() -> None:
    words = ("a", "b", "--model", "m", "--scenario", "x.scenic", "--set", "k=1", "--set", "l=2", "--pair", "c", "d",
             "--scale", "5", "--ratio", "0.5", "--as", "n", "--no-traffic", "--seed", "-1", "--camera", "all",
             "--size", "9")  # fmt: skip
    assert parsed(*words) == RunOptions(
        files=(Path("a"), Path("b")), model="m", scenario=Path("x.scenic"), set=("k=1", "l=2"), pair=("c", "d"),
        scale=5, ratio=0.5, name="n", no_traffic=True, seed=-1, camera="all", size=9,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "m", "--suite", "s"),  # no file
        ("f", "--suite", "s"),  # no model
        ("f", "--model", "m"),  # neither suite nor scenario
        (*REQUIRED, "--scenario", "x"),  # both
        (*REQUIRED, "--scale", "7"),
        (*REQUIRED, "--camera", "rear"),
        (*REQUIRED, "--size", "1.5"),
        (*REQUIRED, "--pair", "one"),
    ],
)
def test_invalid_arguments_are_refused_with_the_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parsed(*words)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("usage:")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "0"), "--size 0: from 1 to 9"),
        (("--size", "10"), "--size 10: from 1 to 9"),
        (("--ratio", "-0.1"), "--ratio -0.1: 0 or more"),
        (("--ratio", "nan"), "--ratio nan: 0 or more"),
    ],
)
def test_bounds_are_checked_before_the_command_runs(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(Ad2Error, match=message):
        parsed(*REQUIRED, *words)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_bounded_number_is_finite(value: str) -> None:
    with pytest.raises(Ad2Error, match=f"--ratio {value}: "):
        parsed(*REQUIRED, f"--ratio={value}")


@pytest.mark.parametrize("words", [("", *REQUIRED[1:]), (*REQUIRED[:3], "--scenario", " ")])
def test_an_empty_path_is_not_the_current_folder(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parsed(*words)
    assert end.value.code == 2 and "it is empty; name a file or a folder" in capsys.readouterr().err


def test_an_option_without_the_one_that_it_needs_is_refused() -> None:
    assert parsed(*REQUIRED, "--routes", "1", "2").routes == ("1", "2")
    assert parsed(*REQUIRED, "--loops", "1").loops == 1  # the default has no effect
    with pytest.raises(Ad2Error, match=r"^--loops is an option of --scenario, which is not given; omit it$"):
        parsed(*REQUIRED, "--loops", "2")
    with pytest.raises(Ad2Error, match=r"^--routes is an option of --suite, which is not given; omit it$"):
        parsed("f", "--model", "m", "--scenario", "x", "--routes", "1")


def test_inherited_option_can_be_fixed() -> None:
    assert _run(("--model", "m"), ModelOptions).seed == 0
    with pytest.raises(SystemExit):
        _run(("--model", "m", "--seed", "1"), ModelOptions)


def test_a_command_without_options_is_called_without_arguments() -> None:
    parser = argparse.ArgumentParser()
    add_command(parser.add_subparsers(), "list", lambda: 7, help="lists")
    args = parser.parse_args(["list"])
    assert args.func(args) == 7


def test_identity_has_the_marked_options_and_their_resolved_values() -> None:
    options = RunOptions(files=(), model="m", suite="s", seed=4)
    found = identity_of(options, {"model": {"name": "m"}, "prompts": "abc", "suite": "sha", "other": 1})
    assert found == {"model": {"name": "m"}, "prompts": "abc", "suite": "sha", "seed": 4, "camera": None}
    assert "seed" not in identity_of(ModelOptions(model="m"), {"prompts": ""})
