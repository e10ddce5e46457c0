"""`ad2 threats gallery`: one page about a folder of scenarios and the runs on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option

EXAMPLES = """examples:
  ad2 threats gallery threats/                                     writes threats/gallery.html
  ad2 threats gallery threats/ --runs out/expert out/qwen --out talk.html
to make the runs:
  ad2 drive run --suite threats/ --agent expert --out out/expert"""


@dataclass(frozen=True, kw_only=True)
class ThreatGalleryOptions:
    """`ad2 threats gallery`."""

    folder: Path = option("output folder of `ad2 threats generate`", metavar="DIR", positional=True)
    runs: tuple[Path, ...] = option("run folders of `ad2 drive run --suite DIR`", default=(), metavar="RUN")
    out: Path | None = option("file of the page (default: DIR/gallery.html)", default=None, metavar="FILE.html")


def register(parts: Any) -> None:
    add_command(
        parts,
        "gallery",
        run,
        ThreatGalleryOptions,
        help="write a self-contained page: picture, threat, parameters and failures of each scenario",
        description="Write one HTML page about the scenarios of DIR (or of any folder of *.scenic files). The page\n"
        "is self-contained. Pictures come from `ad2 threats check`, else from the interview.",
        epilog=EXAMPLES,
    )


def run(options: ThreatGalleryOptions) -> int:
    """Write the page and return 0; raises Ad2Error for mistakes of the user."""
    from closedloop_plugin.threats.gallery.page import write
    from lmms_eval_ad2.core.errors import Ad2Error

    out = options.out or options.folder / "gallery.html"
    if out.suffix not in (".html", ".htm"):
        raise Ad2Error(f"--out {out}: the name must end in .html")
    count = write(options.folder, out, options.runs)
    size = out.stat().st_size / 1e6
    print(f"gallery  {out}  ({count} scenarios, {len(options.runs)} runs, {size:.1f} MB)")
    return 0
