"""`ad2 threats gallery`: one page about a folder of scenarios, and who failed in which."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLES = """examples:
  ad2 threats gallery threats/                                     writes threats/gallery.html
  ad2 threats gallery threats/ --runs out/expert out/qwen --out talk.html
where the runs come from:
  ad2 drive run --suite threats/ --agent expert --out out/expert"""


def register(parts: Any) -> None:
    p = parts.add_parser(
        "gallery",
        help="one self-contained page: a picture, the threat, its parameters, who failed",
        description="Write one HTML page about the scenarios of DIR (or of any folder of *.scenic files). It fetches\n"
        "nothing and can be passed on as it is. Pictures come from `ad2 threats check`, else from the interview.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("folder", type=Path, metavar="DIR", help="as `ad2 threats generate --out` wrote it")
    p.add_argument(
        "--runs", type=Path, nargs="+", default=[], metavar="RUN", help="run folders of `ad2 drive run --suite DIR`"
    )
    p.add_argument("--out", type=Path, metavar="FILE.html", help="of the page (default: DIR/gallery.html)")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0 when the page is written; what the user can mend is an Ad2Error."""
    from closedloop_plugin.threats.gallery.page import write
    from lmms_eval_ad2.errors import Ad2Error

    out = args.out or args.folder / "gallery.html"
    if out.suffix not in (".html", ".htm"):
        raise Ad2Error(f"--out {out}: a name that ends in .html is needed")
    gallery = write(args.folder, out, args.runs)
    size = out.stat().st_size / 1e6
    print(f"gallery  {out}  ({len(gallery.scenarios)} scenarios, {len(args.runs)} runs, {size:.1f} MB)")
    return 0
