"""`ad2`: one-line errors without terminal control codes; commands of working and broken plugins."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from support.distributions import installed

from lmms_eval_ad2.cli.main import main


def test_error_messages_contain_no_terminal_control_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "absent\x1b[2J\x07.jsonl"
    assert main(["score", "drivelm", str(tmp_path / name), "--truth", "t.json"]) == 2
    output = capsys.readouterr().err
    assert output.startswith("error: cannot read")
    assert "absent\\x1b[2J\\x07.jsonl" in output
    assert output.endswith("\n")
    assert not {"\x1b", "\x07"} & set(output)


COMMANDS = (
    "demo", "doctor", "data", "tasks", "eval", "report", "drive", "threats", "learn", "robot", "score", "rescore",
    "merge", "judge", "mcq", "annotate", "export", "scenic", "carla", "serve",
)  # fmt: skip
EXTRA = """
def register(subparsers):
    p = subparsers.add_parser("another", help="somebody else's")
    p.set_defaults(func=lambda args: print("it runs"))
"""


def listed_commands(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """The commands in `ad2 --help` in order, and the lines on stderr."""
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    output = capsys.readouterr()
    return re.findall(r"^    (\w+)", output.out, re.M), output.err.splitlines()


def test_built_in_commands_are_listed_in_fixed_order_before_plugins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed_commands(capsys) == ([*COMMANDS], [])
    lines = "another = extra_commands:register"
    with installed(tmp_path, {"ad2.commands": lines}, {"extra_commands.py": EXTRA}):
        assert listed_commands(capsys) == ([*COMMANDS, "another"], [])
        assert main(["another"]) == 0
    assert capsys.readouterr().out == "it runs\n"


def test_a_plugin_that_does_not_import_is_left_out_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(tmp_path, {"ad2.commands": "broken = broken_plugin:register"}, {"broken_plugin.py": "import gone"}):
        assert main(["tasks", "ad2_relation"]) == 0
        assert capsys.readouterr().err == "", "another command was named"
        with pytest.raises(SystemExit) as end:
            main(["broken"])
        assert end.value.code == 2
        output = capsys.readouterr().err
    assert output.startswith("warning: broken_plugin: entry 'broken' of ad2.commands")
    assert output.count("warning:") == 1
    assert "No module named 'gone'" in output.splitlines()[0]
    assert "invalid choice: 'broken' (choose from 'demo', 'doctor'," in output
    with installed(
        tmp_path / "other", {"ad2.commands": "broken = broken_too:register"}, {"broken_too.py": "import gone"}
    ):
        names, lines = listed_commands(capsys)
        with pytest.raises(SystemExit) as end:
            main(["--version"])
    assert (names, len(lines)) == ([*COMMANDS], 1)
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("lmms-eval-ad2 ")


def test_a_plugin_that_fails_to_add_its_options_is_left_out_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "def register(subparsers):\n    subparsers.add_parser('later', no_such_argument=1)\n"
    with installed(tmp_path, {"ad2.commands": "later = late_plugin:register"}, {"late_plugin.py": text}):
        names, lines = listed_commands(capsys)
    assert names == [*COMMANDS]
    assert len(lines) == 1 and lines[0].startswith(
        "warning: late_plugin:register: command 'later' is left out: TypeError"
    )


def test_without_the_closed_loop_package_the_other_commands_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "closedloop_plugin"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "closedloop_plugin", None)
    closed = ("drive", "scenic", "threats", "carla", "serve", "robot", "learn")
    with installed(tmp_path, {}, {}):
        names, output = listed_commands(capsys)
        assert names == [name for name in COMMANDS if name not in closed]
        assert len(output) == 1
        assert output[0].startswith("warning: closedloop_plugin: ")
    with installed(tmp_path, {}, {}, "another"):
        assert main(["tasks", "--json"]) == 0
        captured = capsys.readouterr()
    rows = {row["task"]: row["ready"] for row in json.loads(captured.out)}
    assert not rows["ad2drive_demo"]
    assert rows["ad2demo_relation"]
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["report", "A", "B", "--markdown", "FILE", "--bogus"], "usage: ad2 report RESULTS..."),
        (["judge", "rate", "i.jsonl", "--out", "o.jsonl", "--bogus"], "usage: ad2 judge rate "),
    ],
)
def test_an_unknown_argument_has_the_usage_of_its_command(
    words: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert error.startswith(usage) and "unrecognized arguments: " in error and error.rstrip().endswith("--bogus")
