"""`ad2 drive show`: a film strip and a top view of one episode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.report.text_table import few

if TYPE_CHECKING:
    from closedloop_plugin.report.episode_track import EpisodeTrack, TrackSample
    from closedloop_plugin.report.film_strip import Shot
    from closedloop_plugin.report.top_view import Ground

_FRAME = re.compile(r"(?P<camera>.+)_(?P<tick>\d{1,9})\.(jpg|png)")


@dataclass(frozen=True, kw_only=True)
class DriveShowOptions:
    """`ad2 drive show`."""

    episode: str = option(metavar="EPISODE", positional=True)
    out: Path | None = option(
        "file of the top view; the film strip is saved beside it", default=None, metavar="FILE.png"
    )
    frames: int = option("frames in the film strip (default 12)", default=12, metavar="N", least=1)
    camera: str | None = option(
        "camera of the film strip (default: front, if it was saved)", default=None, metavar="NAME"
    )
    map: Path | None = option("map with the lanes to draw (default: the driven one)", default=None, metavar="FILE.xodr")


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


@dataclass(frozen=True)
class EpisodeFiles:
    """Where an episode's files are: <run>/tracks/<key>.json, <run>/frames/<key>/."""

    run: Path
    key: str  # <route>_rep<k>

    @property
    def track(self) -> Path:
        return self.run / "tracks" / f"{self.key}.json"

    @property
    def frames(self) -> Path:
        return self.run / "frames" / self.key


def run(options: DriveShowOptions) -> int:
    from closedloop_plugin.report.episode_track import read_track
    from closedloop_plugin.report.film_strip import film_strip
    from closedloop_plugin.report.top_view import heading, top_view
    from lmms_eval_ad2.core.errors import Ad2Error

    episode = find(options.episode)
    track = _with_record(read_track(episode.track), episode)
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


def find(text: str) -> EpisodeFiles:
    """Return the episode that the user names; raises Ad2Error with the existing ones if there is none."""
    from lmms_eval_ad2.core.errors import Ad2Error

    file = Path(text)
    if file.suffix == ".json":
        if not file.is_file():
            raise Ad2Error(f"{file}: no such track file")
        return EpisodeFiles(file.resolve().parent.parent, file.stem)
    if file.is_dir():
        return _only_episode(file)
    folder, _, name = text.rpartition(":")
    repetition = "0"
    if name.isdigit() and ":" in folder and not Path(folder).is_dir():
        folder, _, name, repetition = *folder.rpartition(":"), name
    if not folder or not name:
        raise Ad2Error(f"{text}: expected RUN_DIR:ROUTE, RUN_DIR:ROUTE:REPETITION or a file of RUN_DIR/tracks")
    episode = EpisodeFiles(Path(folder), f"{name}_rep{repetition}")
    if not episode.track.is_file():
        if failure := _failure(episode):
            raise Ad2Error(f"{text}: not driven; {failure}")
        there = _tracks(episode.run)
        raise Ad2Error(f"{episode.track}: no track of this episode" + (f"; there are {few(there, 8)}" if there else ""))
    return episode


def _failure(episode: EpisodeFiles) -> str:
    """Why an episode of the run was not driven; "" if it was, or is none of the run."""
    from closedloop_plugin.runner.store import read_records
    from lmms_eval_ad2.storage.identity import RESULTS

    records = read_records(episode.run) if (episode.run / RESULTS).is_file() else []
    found = [r for r in records if f"{r.route_id}_rep{r.repetition}" == episode.key]
    return found[-1].failure if found and found[-1].blamed else ""


def _only_episode(run: Path) -> EpisodeFiles:
    """The episode of a run that has one. Raises Ad2Error with the names of several."""
    from lmms_eval_ad2.core.errors import Ad2Error

    there = _tracks(run)
    if len(there) == 1:
        return EpisodeFiles(run, there[0])
    if not there:
        raise Ad2Error(f"{run}: no episode in {run / 'tracks'}")
    route, _, repetition = there[0].rpartition("_rep")
    example = f"{run}:{route}" + ("" if repetition == "0" else f":{repetition}")
    raise Ad2Error(f"{run}: {len(there)} episodes ({few(there, 8)}); name one, such as {example}")


def _tracks(run: Path) -> list[str]:
    """The episodes with a track, <route>_rep<k>."""
    return sorted(file.stem for file in (run / "tracks").glob("*_rep*.json"))


def _with_record(track: EpisodeTrack, episode: EpisodeFiles) -> EpisodeTrack:
    """Replace infractions and scores by those of episodes.jsonl, the authoritative file, if it exists."""
    from closedloop_plugin.report.episode_track import place_of
    from closedloop_plugin.report.track_log import result_of
    from closedloop_plugin.runner.store import read_records

    records = [r for r in read_records(episode.run) if f"{r.route_id}_rep{r.repetition}" == episode.key]
    if not records:
        return track
    return replace(track, places=tuple(map(place_of, records[-1].places)), result=result_of(records[-1]))


def lanes(file: Path, sha256: str | None) -> list[Ground]:
    """Outlines of a map's lanes; empty if the file is missing or has changed since the drive."""
    import numpy as np

    from closedloop_plugin.maps.towns.lanes import read_town
    from closedloop_plugin.report.top_view import GROUND
    from lmms_eval_ad2.storage.files import file_sha256

    if sha256 is not None and not (file.is_file() and file_sha256(file) == sha256):
        return []
    known = [(x, x.kind if x.kind in GROUND else "driving") for x in read_town(file).lanes.values() if _seen(x.kind)]
    drawn = [(kind, np.vstack([lane.left, lane.right[::-1]])) for lane, kind in known]
    return sorted(drawn, key=lambda outline: outline[0] == "driving")  # driving lanes on top, junctions overlap


def _seen(kind: str) -> bool:
    return kind not in ("none", "restricted", "border", "median", "special1", "special2", "special3")


def pick(episode: EpisodeFiles, track: EpisodeTrack, camera: str | None, most: int) -> list[Shot]:
    """Saved frames, spread over the episode and at its infractions, each with the last words since the one before."""
    import numpy as np

    from closedloop_plugin.report.episode_track import progress
    from closedloop_plugin.report.film_strip import choose
    from closedloop_plugin.report.top_view import NAMES
    from lmms_eval_ad2.storage.image_files import open_image
    from lmms_eval_ad2.storage.shown_image import shown_rgb

    frames = _frames(episode, camera)
    if not frames:
        return []
    moments = [min(track.moments, key=lambda m: abs(m.tick - tick)) for tick, _ in frames]
    along = {m.tick: value for m, value in zip(track.moments, progress(track.moments), strict=True)}
    at_infractions = [min(range(len(frames)), key=lambda i: abs(moments[i].t - p["time_s"])) for p in track.places]
    shots = []
    for i in choose([along[m.tick] for m in moments], most, at_infractions):
        with open_image(frames[i][1]) as image:
            names = [
                NAMES.get(p["kind"], p["kind"]) for p, k in zip(track.places, at_infractions, strict=True) if k == i
            ]
            head, *rest = _heard(track, moments, i).words().splitlines()
            text = "\n".join([", ".join([head, *map(str.upper, names)]), *rest])
            shots.append((float(frames[i][0]), np.asarray(shown_rgb(image)), text))
    return shots


def _heard(track: EpisodeTrack, shown: Sequence[TrackSample], i: int) -> TrackSample:
    """The sample of frame i, with the last words since the frame before it: at the begin of a contact, they stand in a
    sample between two frames."""
    begin = shown[i - 1].tick if i else -1
    said = [m.reply for m in track.moments if begin < m.tick <= shown[i].tick and m.reply]
    return replace(shown[i], reply=said[-1]) if said else shown[i]


def _frames(episode: EpisodeFiles, camera: str | None) -> list[tuple[int, Path]]:
    """(tick, file) of one camera in order; default: the front camera."""
    from lmms_eval_ad2.core.errors import Ad2Error

    found: dict[str, list[tuple[int, Path]]] = {}
    for file in sorted(episode.frames.iterdir()) if episode.frames.is_dir() else []:
        match = _FRAME.fullmatch(file.name)
        if match:
            found.setdefault(match["camera"], []).append((int(match["tick"]), file))
    if not found:
        return []
    name = camera or ("front" if "front" in found else min(found))
    if name not in found:
        raise Ad2Error(f"--camera {name}: no frames of this camera; available: {', '.join(found)}")
    return sorted(found[name])
