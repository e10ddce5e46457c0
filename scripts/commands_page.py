"""Write docs/commands.md, the reference page of `ad2`: every command with its options, from the dataclasses they are.

python scripts/commands_page.py            # writes the page
python scripts/commands_page.py --check    # exit code 1 if the page is not current
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lmms_eval_ad2.cli.main import ORDER, parser
from lmms_eval_ad2.core.options import DeclaredOption, options_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """# Commands

    ad2 COMMAND --help

Written by `python scripts/commands_page.py` from the options of the commands (`lmms_eval_ad2/core/options.py`); a test
fails if it is not current. Required options are in bold. Of commands that continue in a folder which already has
results, "same" marks the options that are part of the run's identity: a start with another value is refused. Every
other option may differ from start to start.

`--config FILE` reads options from a YAML file by their names (`decision_hz: 5`, `frames: true`), `--config KEY=VALUE`
one of them; what only experts need has no flag and is such a key. Options on the command line override files."""


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="compare only")
    args = p.parse_args()
    text = page()
    if args.check:
        current = PAGE.is_file() and PAGE.read_text("utf-8") == text
        print("current" if current else f"{PAGE.name} is not current: python scripts/commands_page.py")
        return 0 if current else 1
    PAGE.write_text(text, "utf-8")
    return 0


def page() -> str:
    """The whole page; commands that other distributions add are left out."""
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help for choice in commands._choices_actions}
    blocks = [HEAD]
    for name in ORDER:
        blocks += [f"## ad2 {name}", _sentence(summaries[name]), *_blocks(f"ad2 {name}", commands.choices[name])]
    return "\n\n".join(blocks) + "\n"


def _blocks(path: str, command: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a command, or its sub-commands with theirs."""
    for branches in (action for action in command._actions if isinstance(action, argparse._SubParsersAction)):
        for choice in branches._choices_actions:
            yield f"### {path} {choice.dest}"
            yield _sentence(choice.help)
            yield from _blocks(f"{path} {choice.dest}", branches.choices[choice.dest])
    declared = getattr(command.get_default("func"), "options", None)
    if declared is not None:
        options = [one for one in options_of(declared) if not one.spec.fixed]
        folder = any(one.spec.identity for one in options)
        flags, keys = ([one for one in options if one.spec.expert == expert] for expert in (False, True))
        yield _table("option", flags, folder)
        if keys:
            yield _table("key of `--config`", keys, folder)


def _table(title: str, options: Iterable[DeclaredOption], folder: bool) -> str:
    head = [title, "default", "description", *(["resume"] if folder else [])]
    rows = [head, ["---"] * len(head), *(_row(one, folder) for one in options)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(one: DeclaredOption, folder: bool) -> list[str]:
    unset = one.required or one.default is None or one.default is False or one.default in ((), "")
    default = "" if unset else _code(str(one.default))
    identity = ["same" if one.spec.identity else ""] if folder else []
    return [_named(one), default, _text(one.spec.help or ""), *identity]


def _named(one: DeclaredOption) -> str:
    """The option as it is typed, in bold if it must be given."""
    values = one.arguments()[1]
    shown: Any = values.get("metavar") or "|".join(map(str, values.get("choices") or ())) or one.dest.upper()
    if one.spec.expert:
        text = f"{one.name}: {'true' if one.hint is bool else shown if isinstance(shown, str) else ' '.join(shown)}"
    elif one.hint is bool:
        text = one.flag
    elif one.spec.positional:
        text = f"{shown} ..." if one.is_tuple else str(shown)
    else:
        many = " ..." if one.is_tuple and isinstance(shown, str) and not one.spec.repeated else ""
        text = f"{one.flag} {shown if isinstance(shown, str) else ' '.join(shown)}{many}"
    required = one.required or (one.spec.exclusive is not None and one.spec.exclusive.required)
    return f"**{_code(text)}**" if required else _code(text)


def _sentence(text: str | None) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _code(text: str) -> str:
    """A vertical line would end the table's cell, even within code."""
    return "`" + text.replace("|", "\\|") + "`"


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
