"""`ad2 annotate`: people look at records, one after the other; what they decide is exported, and compared."""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.sigterm import ended_by_sigterm

if TYPE_CHECKING:
    from lmms_eval_ad2.annotate.folder import AnnotationFolder
    from lmms_eval_ad2.annotate.project import AnnotationProject

PARTS = ("page", "export", "agreement")
ASKS = "general,suggestion,region,chain"
EXAMPLES = """examples:
  ad2 annotate sample_coda_lm --out notes                         a dataset of the data home, on a page
  ad2 annotate reviewed.jsonl --images pictures --out notes       a file of Records
  ad2 annotate pictures --boxes boxes.json --out notes            pictures without texts yet
  ad2 annotate pictures --out notes --pre endpoint:qwen2.5-vl@http://127.0.0.1:8000/v1
  ad2 annotate export notes --out records.jsonl --merge majority
  ad2 annotate agreement notes

`ad2 annotate SOURCE` is short for `ad2 annotate page SOURCE`; the same command opens the folder again.
The whole: docs/annotate.md"""


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "annotate", help="a page on which people keep, change or delete texts; export, agreement",
        description="Annotate pictures and review texts in a browser. Every action is on the disk before the next.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    _page_options(parts.add_parser("page", help="open the page (the default part)"))
    out = parts.add_parser("export", help="finished, complete records as JSON lines")
    out.add_argument("folder", type=Path, metavar="DIR")
    out.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl")
    whose = out.add_mutually_exclusive_group()
    whose.add_argument("--reviewer", metavar="NAME", help="this reviewer's word counts")
    whose.add_argument("--merge", choices=("majority",), help="what more than half of those who finished it say")
    out.set_defaults(func=export)
    agree = parts.add_parser("agreement", help="how far several reviewers agree")
    agree.add_argument("folder", type=Path, metavar="DIR")
    agree.add_argument("--json", action="store_true", help="print JSON")
    agree.set_defaults(func=agreement)
    _page_by_default(p)


def _page_by_default(p: argparse.ArgumentParser) -> None:
    """A first word that names no part begins the page's own words."""
    parse = p.parse_known_args

    def parse_known_args(args: Any = None, namespace: Any = None) -> Any:
        words = list(args or ())
        if words and words[0] not in (*PARTS, "-h", "--help"):
            words.insert(0, "page")
        return parse(words, namespace)

    p.parse_known_args = parse_known_args  # type: ignore[method-assign]


def _page_options(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "source", metavar="SOURCE", help="dataset of the data home, FILE.jsonl of Records, or a folder of pictures"
    )
    p.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the annotation folder; everything is kept there"
    )
    data = p.add_argument_group("what is annotated")
    data.add_argument("--split", help="of a dataset (default: its only one)")
    data.add_argument("--images", type=Path, metavar="DIR", help="folder of the images, where it is another one")
    data.add_argument("--boxes", type=Path, metavar="FILE.json", help="boxes of a folder's pictures (ours or COCO's)")
    data.add_argument("--ask", default=ASKS, metavar="A,B", help=f"of a folder's pictures (default {ASKS})")
    data.add_argument("--limit", type=int, metavar="N", help="only the first N records")
    data.add_argument("--lang", choices=("en", "zh"), help="language of the texts under review (default en)")
    data.add_argument(
        "--pre", metavar="MODEL|FILE", help="drafts: endpoint:MODEL@URL, openai:..., or answers in FILE.jsonl"
    )
    page = p.add_argument_group("the page")
    page.add_argument("--reviewer", default="", metavar="NAME", help="who works here; can be said on the page")
    page.add_argument("--scale", type=int, choices=(5, 10), help="of scores: 1 to this (default 10)")
    page.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)")
    page.add_argument("--port", type=int, default=7861, help="default 7861; 0: any free one")
    page.add_argument("--no-page", action="store_true", help="make the folder and the drafts, and end")
    p.set_defaults(func=page_)


def page_(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.annotate.actions import reviewer_name
    from lmms_eval_ad2.annotate.project import AnnotationProject
    from lmms_eval_ad2.annotate.sources import open_or_make

    if args.reviewer:
        args.reviewer = reviewer_name(args.reviewer)
    if not 0 <= args.port <= 65_535:
        raise Ad2Error(f"--port {args.port}: from 0 to 65535")
    _ensure_sample(args.source)
    folder = open_or_make(args.out, _request(args))
    print(f"{folder.path}: {len(folder)} records of {folder.about.source}, images in {folder.about.image_root}")
    if args.pre:
        _drafts(folder, args.pre)
    desk = AnnotationProject(folder)
    if args.no_page:
        return 0
    from lmms_eval_ad2.annotate.page import serve

    if args.host not in ("127.0.0.1", "localhost", "::1"):
        print(f"warning: on {args.host} whoever reaches this port sees the pictures and can change what is said")
    with ended_by_sigterm(), contextlib.suppress(KeyboardInterrupt):
        serve(desk, reviewer=args.reviewer, host=args.host, port=args.port)
    print(f"ended; all that was done is in {folder.path}")
    return 0


def _ensure_sample(source: str) -> None:
    """The bundled sample is copied into the data home when it is first used."""
    from lmms_eval_ad2.sample import BENCHMARKS, dataset_name, ensure_sample

    if source in map(dataset_name, BENCHMARKS):
        ensure_sample()


def _request(args: argparse.Namespace) -> Any:
    from lmms_eval_ad2.annotate.blank_records import ASKS
    from lmms_eval_ad2.annotate.sources import AnnotationRequest
    from lmms_eval_ad2.llm.settings import one_of

    asks = tuple(one_of(ask.strip(), ASKS, "kind in --ask") for ask in args.ask.split(",") if ask.strip())
    if args.limit is not None and args.limit < 1:
        raise Ad2Error(f"--limit {args.limit}: at least 1")
    return AnnotationRequest(
        args.source, args.split, args.images, args.boxes, asks, args.limit, args.lang, args.scale,
    )  # fmt: skip


def _drafts(folder: AnnotationFolder, spec: str) -> None:
    from lmms_eval_ad2.annotate import preannotation
    from lmms_eval_ad2.annotate.project import ACTIONS
    from lmms_eval_ad2.annotate.review_log import ReviewLog

    begun = {name for _, name in ReviewLog(folder.path / ACTIONS).states}
    told = preannotation.fill(folder, spec, begun)
    print(told.line())
    for code, detail in told.details.items():
        if detail:
            print(f"  {code}, for example: {' '.join(detail.split())[:200]}")


def _desk(path: Path) -> AnnotationProject:
    from lmms_eval_ad2.annotate.folder import open_folder
    from lmms_eval_ad2.annotate.project import AnnotationProject

    return AnnotationProject(open_folder(path))


def export(args: argparse.Namespace) -> int:
    """0 when at least one record went out, 1 when none did."""
    from lmms_eval_ad2.annotate.export import export as write

    desk = _desk(args.folder)
    done = write(desk, args.out, reviewer=args.reviewer, merged=args.merge)
    print(f"{done.n} of {len(desk.folder)} records -> {args.out}")
    for reason, count in done.left_out.most_common():
        print(f"  left out: {count} {reason}")
    print(f"  image paths are relative to {desk.folder.about.image_root}")
    return 0 if done.n else 1


def agreement(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.annotate.agreement import agreement as measure

    found = measure(_desk(args.folder))
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    for line in _lines(found):
        print(line)
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    scores, verdicts, changes = found["scores"], found["verdicts"], found["changes"]
    lines = ["finished: " + (", ".join(f"{who} {n}" for who, n in found["finished"].items()) or "nobody has begun")]
    lines.append(
        f"scores ({found['scale'][0]}-{found['scale'][1]}): {scores['units']} texts, "
        f"{scores['units_by_two_or_more']} by two or more; Krippendorff's alpha "
        f"{_number(scores['alpha_interval'])} (interval), {_number(scores['alpha_ordinal'])} (ordinal)"
    )
    for name, part in (("keep / change / delete", verdicts), ("complete / incomplete", found["complete"])):
        lines.append(
            f"{name}: {part['units_by_two_or_more']} by two or more, {_share(part['same'])} of pairs alike, "
            f"alpha {_number(part['alpha_nominal'])} (nominal)"
        )
    lines.append(
        f"changed by two or more: {changes['units_by_two_or_more']} texts, similarity {_number(changes['similarity'])}"
    )
    for pair in found["pairs"]:
        kappa, rho, gap = (_number(pair[name]) for name in ("kappa_quadratic", "spearman", "mean_difference"))
        lines.append(
            f"{' - '.join(pair['reviewers'])}: {pair['scores']} scores, weighted kappa {kappa} (quadratic), Spearman "
            f"{rho}, mean difference {gap}; {pair['verdicts']} verdicts, {_share(pair['same_verdict'])} alike"
        )
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
