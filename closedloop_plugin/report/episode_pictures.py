"""Files of one episode of a run: the track for its top view, the lanes below, and saved frames for its film strip."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from closedloop_plugin.maps.towns.lanes import read_town
from closedloop_plugin.report.film_strip import Shot, choose
from closedloop_plugin.report.top_view import GROUND, NAMES, Ground
from closedloop_plugin.report.track_log import EpisodeTrack, place_of, progress, read_track, result_of
from closedloop_plugin.runner.store import read_records
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.table import few
from lmms_eval_ad2.storage.files import file_sha256
from lmms_eval_ad2.storage.identity import RESULTS
from lmms_eval_ad2.storage.image_files import open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb

_FRAME = re.compile(r"(?P<camera>.+)_(?P<tick>\d{1,9})\.(jpg|png)")
UNSEEN = ("none", "restricted", "border", "median", "special1", "special2", "special3")  # kinds of lanes not drawn


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


def find(text: str) -> EpisodeFiles:
    """Return the episode that the user names; raises Ad2Error with the existing ones if there is none."""
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
        records = read_records(episode.run) if (episode.run / RESULTS).is_file() else []
        own = [r for r in records if f"{r.route_id}_rep{r.repetition}" == episode.key]
        if own and own[-1].blamed and own[-1].failure:
            raise Ad2Error(f"{text}: not driven; {own[-1].failure}")
        there = _tracks(episode.run)
        raise Ad2Error(f"{episode.track}: no track of this episode" + (f"; there are {few(there, 8)}" if there else ""))
    return episode


def _only_episode(run: Path) -> EpisodeFiles:
    """The episode of a run that has one. Raises Ad2Error with the names of several."""
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


def track_of(episode: EpisodeFiles) -> EpisodeTrack:
    """The track, with infractions and scores of episodes.jsonl, the authoritative file, if it exists."""
    track = read_track(episode.track)
    records = [r for r in read_records(episode.run) if f"{r.route_id}_rep{r.repetition}" == episode.key]
    if not records:
        return track
    return replace(track, places=tuple(map(place_of, records[-1].places)), result=result_of(records[-1]))


def lanes(file: Path, sha256: str | None) -> list[Ground]:
    """Outlines of a map's lanes; empty if the file is missing or has changed since the drive."""

    if sha256 is not None and not (file.is_file() and file_sha256(file) == sha256):
        return []
    known = [
        (x, x.kind if x.kind in GROUND else "driving") for x in read_town(file).lanes.values() if x.kind not in UNSEEN
    ]
    drawn = [(kind, np.vstack([lane.left, lane.right[::-1]])) for lane, kind in known]
    return sorted(drawn, key=lambda outline: outline[0] == "driving")  # driving lanes on top, junctions overlap


def pick(episode: EpisodeFiles, track: EpisodeTrack, camera: str | None, most: int) -> list[Shot]:
    """Saved frames, spread over the episode and at its infractions, each with the last words since the one before."""

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
            # The last words since the frame before it: at the begin of a contact, they stand in a sample between two
            # frames.
            begin = moments[i - 1].tick if i else -1
            said = [m.reply for m in track.moments if begin < m.tick <= moments[i].tick and m.reply]
            heard = replace(moments[i], reply=said[-1]) if said else moments[i]
            head, *rest = heard.words().splitlines()
            text = "\n".join([", ".join([head, *map(str.upper, names)]), *rest])
            shots.append((float(frames[i][0]), np.asarray(shown_rgb(image)), text))
    return shots


def _frames(episode: EpisodeFiles, camera: str | None) -> list[tuple[int, Path]]:
    """(tick, file) of one camera in order; default: the front camera."""
    found: dict[str, list[tuple[int, Path]]] = {}
    for file in sorted(episode.frames.iterdir()) if episode.frames.is_dir() else []:
        match = _FRAME.fullmatch(file.name)
        if match:
            found.setdefault(match["camera"], []).append((int(match["tick"]), file))
    if not found:
        return []
    name = camera or ("front" if "front" in found else min(found))
    if name not in found:
        raise Ad2Error(f"--config camera={name}: no frames of this camera; available: {', '.join(found)}")
    return sorted(found[name])
