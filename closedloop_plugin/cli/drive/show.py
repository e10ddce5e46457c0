"""`ad2 drive show`: a film strip and a top view of one episode."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option


@dataclass(frozen=True, kw_only=True)
class DriveShowOptions:
    """`ad2 drive show`."""

    episode: str = option(metavar="EPISODE", positional=True)
    out: Path | None = option(
        "file of the top view; the film strip is saved beside it", default=None, metavar="FILE.png"
    )
    frames: int = option("frames in the film strip (default 12)", default=12, metavar="N", least=1, expert=True)
    camera: str | None = option(
        "camera of the film strip (default: front, if it was saved)", default=None, metavar="NAME", expert=True
    )
    map: Path | None = option(
        "map with the lanes to draw (default: the driven one)", default=None, metavar="FILE.xodr", expert=True
    )


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "show",
        run,
        DriveShowOptions,
        help="draw an episode: film strip and top view with route, track and infractions",
        description="EPISODE is RUN_DIR:ROUTE, RUN_DIR:ROUTE:REPETITION, or a file RUN_DIR/tracks/<route>_rep<k>.json; "
        "RUN_DIR, if it has one episode.",
    )


def run(options: DriveShowOptions) -> int:
    from closedloop_plugin.report.episode_pictures import find, lanes, pick, track_of
    from closedloop_plugin.report.film_strip import film_strip
    from closedloop_plugin.report.top_view import heading, top_view
    from lmms_eval_ad2.core.errors import Ad2Error

    episode = find(options.episode)
    track = track_of(episode)
    out = options.out or episode.run / "pictures" / f"{episode.key}.png"
    if out.suffix != ".png":
        raise Ad2Error(f"--out {out}: the name must end in .png")
    ground = lanes(options.map, None) if options.map else lanes(Path(track.map_file), track.map_sha256)
    print(f"top view    {top_view(track, out, ground)}")
    shots = pick(episode, track, options.camera, options.frames)
    if shots:
        print(f"film strip  {film_strip(shots, out.with_name(f'{out.stem}_film.png'), heading(track))}")
    else:
        print(f"no film strip: no frames in {episode.frames}; `ad2 drive run --frames` saves them")
    return 0
