"""`ad2 drive show`: finding an episode, and the files that it writes."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.closedloop.rides import picture, ride, road

from closedloop_plugin.cli.drive import show as command
from closedloop_plugin.report.episode_pictures import find, lanes, pick
from closedloop_plugin.report.track_log import parse_track
from lmms_eval_ad2.core.errors import Ad2Error


def show(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    args = parser.parse_args(["show", *argv])
    return args.func(args)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with one episode and its frames of two cameras at 2 Hz."""
    log, rec, _ = ride()
    folder = tmp_path / "run"
    (folder / "tracks").mkdir(parents=True)
    (folder / "tracks" / "17_rep0.json").write_text(json.dumps(log.to_json(road())))  # no record in it
    (folder / "episodes.jsonl").write_text(rec.to_json() + "\n")
    frames = folder / "frames" / "17_rep0"
    frames.mkdir(parents=True)
    for name in ("front_left", "front"):
        for tick in range(0, 460, 10):
            Image.fromarray(picture(tick)).save(frames / f"{name}_{tick:05d}.jpg")
    (frames / "notes.txt").write_text("not a frame")
    return folder


def test_top_view_and_film_strip_are_written_and_their_paths_printed(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(f"{run_dir}:17") == 0
    top, film = run_dir / "pictures" / "17_rep0.png", run_dir / "pictures" / "17_rep0_film.png"
    assert capsys.readouterr().out.split() == ["top", "view", str(top), "film", "strip", str(film)]
    drawn = np.asarray(Image.open(top).convert("RGB")).astype(int)
    crosses = (np.abs(drawn - (194, 24, 91)).max(axis=2) < 12).sum()
    assert crosses > 300  # infractions come from episodes.jsonl
    assert Image.open(film).size[0] == 12 + 4 * 412


def test_words_of_a_sample_between_two_frames_stand_under_the_next_one(run_dir: Path) -> None:
    """At the begin of a contact, which is such a sample."""
    episode = find(f"{run_dir}:17")
    raw = json.loads(episode.track.read_text())
    before = {s["tick"]: s for s in raw["samples"]}
    for sample in raw["samples"]:
        sample.pop("said", None)
    contact = {**before[20], "tick": 13, "t": 1.3, "said": {"texts": {"action": "Brake."}}}
    raw["samples"].insert(2, contact)
    shots = pick(episode, parse_track(raw), "front", 100)
    assert [tick for tick, _, text in shots if "Brake." in text] == [20]


@pytest.mark.parametrize("way", ["{0}:17:0", "{0}/tracks/17_rep0.json"])
def test_an_episode_can_be_given_in_several_ways(run_dir: Path, way: str, tmp_path: Path) -> None:
    out = tmp_path / "pics" / "x.png"
    assert show(way.format(run_dir), "--out", str(out), "--config", "frames=2") == 0
    assert sorted(f.name for f in out.parent.iterdir()) == ["x.png", "x_film.png"]


def test_without_frames_the_option_that_keeps_them_is_printed(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (run_dir / "frames" / "17_rep0").iterdir():
        file.unlink()
    assert show(f"{run_dir}:17") == 0
    assert "ad2 drive run --frames" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("episode", "more", "says"),
    [
        ("{0}:18", (), "no track of this episode; there are 17_rep0"),
        ("{0}:17:1", (), "17_rep1.json"),
        ("{0}/frames", (), "no episode in"),
        ("17", (), "expected RUN_DIR:ROUTE"),
        ("nowhere:17", (), "no track"),
        ("{0}/tracks/9.json", (), "no such track file"),
        ("{0}:17", ("--config", "camera=rear"), "no frames of this camera; available: front, front_left"),
        ("{0}:17", ("--out", "x.jpg"), r"must end in \.png"),
        ("{0}:17", ("--config", "frames=0"), "--config frames=0: 1 or more"),
        ("{0}:17", ("--config", "map=nowhere.xodr"), "nowhere.xodr"),
    ],
)
def test_invalid_arguments_are_one_line_errors(run_dir: Path, episode: str, more: tuple[str, ...], says: str) -> None:
    with pytest.raises(Ad2Error, match=says) as error:
        show(episode.format(run_dir), *more)
    assert "\n" not in str(error.value)


def test_lanes_are_drawn_only_from_the_map_that_was_driven(data_dir: Path) -> None:
    file = min((data_dir / "opendrive").rglob("*.xodr"), key=lambda f: f.stat().st_size)
    sha = hashlib.sha256(file.read_bytes()).hexdigest()
    ground = lanes(file, sha)
    assert {"driving"} <= {kind for kind, _ in ground} and ground[-1][0] == "driving"
    assert all(outline.shape[1] == 2 for _, outline in ground)
    assert lanes(file, "0" * 64) == [] == lanes(Path("gone.xodr"), sha)


def test_a_run_with_one_episode_needs_no_route(run_dir: Path) -> None:
    assert find(str(run_dir)) == find(f"{run_dir}:17")
    track = run_dir / "tracks/17_rep0.json"
    (run_dir / "tracks/17_rep1.json").write_bytes(track.read_bytes())
    with pytest.raises(Ad2Error, match=r"2 episodes \(17_rep0, 17_rep1\); name one, such as .*run:17$"):
        find(str(run_dir))
