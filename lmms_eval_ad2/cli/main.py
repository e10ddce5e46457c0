"""`ad2`: the roof. Each sub-command lives in its own module and imports what it needs when it runs."""

from __future__ import annotations

import argparse
import errno
import importlib
import sys
from collections.abc import Sequence

from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error

COMMANDS = (
    "demo", "data", "eval", "tasks", "rescore", "report", "judge", "drivelm", "drive", "threats", "carla", "serve",
    "robot", "mcq", "export", "annotate", "doctor",
)  # fmt: skip

# What a folder or file of the user's can be wrong with.
THEIRS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="ad2", description="Driving benchmarks for vision-language models as plain lmms-eval tasks."
    )
    top.add_argument("--version", action="version", version=f"lmms-eval-ad2 {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"lmms_eval_ad2.cli.{name}").register(subparsers)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake is one message and code 2, Ctrl-C is 130."""
    args = parser().parse_args(argv)
    try:
        return int(args.func(args) or 0)
    except Ad2Error as exc:
        print(f"error: {_printable(exc)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader (head, less) went away
        sys.stderr.close()
        return 0
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f"{exc.filename}: " if exc.filename else ""
            print(f"error: {where}the disk is full; make room, then the same command goes on", file=sys.stderr)
            return 2
        if exc.errno not in THEIRS:
            raise
        print(f"error: {exc.filename}: {exc.strerror}; choose another place, or mend its permissions", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where this one stopped", file=sys.stderr)
        return 130


def _printable(error: Ad2Error) -> str:
    """A message quotes files and servers: what they hold must not rewrite the terminal."""
    from lmms_eval_ad2.report.tables import printable

    return printable(str(error))


if __name__ == "__main__":
    raise SystemExit(main())
