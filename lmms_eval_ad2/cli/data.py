"""`ad2 data`: import releases into the data home, list, verify and relocate what is there."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmms_eval_ad2.data.home import DatasetManifest, DatasetVerification


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("data", help="import benchmarks, list and check what is there")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _register_import(actions)

    listing = actions.add_parser("list", help="what is imported")
    listing.add_argument("--json", action="store_true", help="as JSON, manifests whole")
    listing.set_defaults(func=run_list)

    check = actions.add_parser("verify", help="check hashes, counts and records; exit code 1 where something is wrong")
    check.add_argument("name", metavar="NAME")
    check.add_argument("--split", help="default: all that are imported")
    check.add_argument("--images", action="store_true", help="decode every image and compare its size")
    check.add_argument("--json", action="store_true")
    check.set_defaults(func=run_verify)

    move = actions.add_parser("relocate", help="tell where a dataset's images lie now")
    move.add_argument("name", metavar="NAME")
    move.add_argument("--images", metavar="DIR", type=Path, required=True)
    move.add_argument("--split", help="default: all that are imported")
    move.set_defaults(func=run_relocate)

    schema = actions.add_parser("schema", help="the layout that an import accepts")
    schema.add_argument("name", metavar="NAME", nargs="?", help="a release; without it: the list of releases")
    schema.set_defaults(func=run_schema)


def _register_import(actions: Any) -> None:
    parser = actions.add_parser("import", help="read a release from disk into the data home")
    parser.add_argument("release", metavar="NAME", help="see: ad2 data schema")
    parser.add_argument("source", metavar="SOURCE", type=Path, help="the release's file or folder")
    parser.add_argument("--split", help="which split (default: the release's own)")
    parser.add_argument("--images", metavar="DIR", type=Path, help="the folder that image paths are relative to")
    parser.add_argument("--format", metavar="F", help="where a release has several (coda_lm: raw, llava)")
    parser.add_argument("--skip-bad", action="store_true", help="go on after bad rows; they are counted and listed")
    parser.add_argument("--check-images", action="store_true", help="decode every image; a broken one is a bad row")
    parser.add_argument("--partial", action="store_true", help="accept other numbers than the release's")
    parser.add_argument("--as", dest="name", metavar="NAME", help="store it under this name")
    parser.add_argument("--no-resume", action="store_true", help="do not go on where an interrupted import stopped")
    parser.set_defaults(func=run_import)


def run_import(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.data.home import import_release

    manifest = import_release(
        args.release, args.source, split=args.split, images=args.images, fmt=args.format, name=args.name,
        skip_bad=args.skip_bad, check_images=args.check_images, partial=args.partial, resume=not args.no_resume,
    )  # fmt: skip
    print(_describe(manifest))
    for reason, number in manifest.left_out.items():
        print(f"  left out on purpose: {number} ({reason})")
    if manifest.bad_rows:
        from lmms_eval_ad2.data.home.location import split_dir

        where = split_dir(manifest.name, manifest.split) / "bad_rows.jsonl"
        print(f"  bad rows skipped: {manifest.bad_rows}, listed in {where}", file=sys.stderr)
    return 0


def run_list(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.data.home import home, list_datasets

    manifests = list_datasets()
    if args.json:
        print(json.dumps([manifest.to_dict() for manifest in manifests], ensure_ascii=False, indent=1))
        return 0
    if not manifests:
        print(f"nothing is imported in {home()}; ad2 data schema tells which releases can be")
    for manifest in manifests:
        print(_describe(manifest))
    return 0


def run_verify(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.data.home import verify

    verdicts = [verify(args.name, split, args.images) for split in _splits(args)]
    if args.json:
        print(json.dumps([_verdict_dict(verdict) for verdict in verdicts], ensure_ascii=False, indent=1))
    else:
        for verdict in verdicts:
            _print_verdict(verdict)
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def run_relocate(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.data.home import relocate

    for split in _splits(args):
        manifest = relocate(args.name, split, args.images)
        print(f"{manifest.name} ({manifest.split}): images at {manifest.image_root}")
    return 0


def run_schema(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.data.releases import RELEASES, find_release

    if args.name:
        print(find_release(args.name).schema, end="")
    else:
        for release in RELEASES.values():
            print(f"{release.name:14} {release.title}")
    return 0


def _splits(args: argparse.Namespace) -> list[str]:
    """The split asked for, or all; for an unknown name "test", whose error then tells what to run."""
    from lmms_eval_ad2.data.home.dataset import splits_of

    return [args.split] if args.split else splits_of(args.name) or ["test"]


def _describe(manifest: DatasetManifest) -> str:
    tasks = ", ".join(f"{task} {number}" for task, number in manifest.counts["task"].items())
    return (
        f"{manifest.name} ({manifest.split}): {manifest.n} records [{tasks}], "
        f"images at {manifest.image_root}, sha256 {manifest.sha256[:16]}"
    )


def _verdict_dict(verdict: DatasetVerification) -> dict[str, Any]:
    return {
        "name": verdict.name, "split": verdict.split, "ok": verdict.ok, "n": verdict.n, "n_images": verdict.n_images,
        "n_problems": verdict.n_problems, "problems": list(verdict.problems),
    }  # fmt: skip


def _print_verdict(verdict: DatasetVerification) -> None:
    images = f", {verdict.n_images} images" if verdict.n_images else ""
    state = "ok" if verdict.ok else f"{verdict.n_problems} problems"
    print(f"{verdict.name} ({verdict.split}): {verdict.n} records{images}: {state}")
    for problem in verdict.problems:
        print(f"  {problem}")
    if verdict.n_problems > len(verdict.problems):
        print(f"  ... and {verdict.n_problems - len(verdict.problems)} more")
