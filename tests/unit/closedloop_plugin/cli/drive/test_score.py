"""The command `ad2 drive score`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.closedloop.scored import episode, raw, write

from closedloop_plugin.core.state import Actor, ActorKind, GroundTruth
from closedloop_plugin.scoring.metric_log import MetricLog
from closedloop_plugin.scoring.official import to_official
from lmms_eval_ad2.cli.main import main

XML = """<routes>{}</routes>"""
ROUTE = """<route id="{}" town="Town12"><waypoints><position x="0" y="0" z="0"/><position x="50" y="0" z="0"/>
</waypoints><scenarios><scenario name="ParkingCutIn_1" type="ParkingCutIn"><trigger_point x="0" y="0" yaw="0" z="0"/>
</scenario></scenarios></route>"""


@pytest.fixture
def routes(tmp_path: Path) -> str:
    file = tmp_path / "routes.xml"
    file.write_text(XML.format("".join(ROUTE.format(i) for i in (1, 2, 3))))
    return str(file)


def test_scores_of_pdm_lite_as_json_and_text(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data_dir / "bench2drive"
    arguments = [str(folder / "pdm_lite_results.json"), "--routes", str(folder / "bench2drive220.xml")]
    assert main(["drive", "score", *arguments, "--profile", "bench2drive", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["driving_score"] == pytest.approx(97.0158, abs=5e-5)
    assert found["success_rate"] == pytest.approx(92.2727, abs=5e-5)
    assert found["efficiency"] == pytest.approx(250.0392, abs=5e-5)
    assert found["comfortness"] is None
    assert set(found["abilities"]) == {"Overtaking", "Merging", "Emergency_Brake", "Give_Way", "Traffic_Signs"}
    assert (found["n_routes"], found["n_missing"], found["n_lost"]) == (220, 0, 0)
    assert found["skill_score"] is not None
    assert main(["drive", "score", *arguments]) == 0
    text = capsys.readouterr().out
    for part in ("97.0158", "92.2727", "250.0392", "Traffic Signs % (partial)", "220 records, 0 missing", "T_Junction"):
        assert part in text


def test_a_truncated_file_is_scored_and_its_loss_reported(
    tmp_path: Path, routes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "r.json", [raw("1"), raw("2")])
    text = file.read_text()
    file.write_text(text[: text.rindex('"status"')])
    assert main(["drive", "score", str(file), "--routes", routes]) == 0
    out = capsys.readouterr().out
    assert "1 lost" in out
    assert "is cut off: 1 record(s) lost" in out
    assert "missing: 2 rep 0, 3 rep 0" in out
    assert "33.3333" in out


def test_embedded_results_are_never_labelled_as_official(
    tmp_path: Path, routes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes = [episode(str(i)) for i in (1, 2, 3)]
    (tmp_path / "results.json").write_text(json.dumps(to_official(episodes)))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "episodes.jsonl").write_text("".join(e.to_json() + "\n" for e in episodes))
    texts = []
    for results in (tmp_path / "results.json", tmp_path / "run", tmp_path / "run" / "episodes.jsonl"):
        assert main(["drive", "score", str(results), "--routes", routes]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert texts[0].startswith("Suite embedded220 in the embedded world; NOT comparable with figures driven in CARLA\n")
    assert "expert (privileged)" in texts[0]
    assert "Official" not in texts[0]


def test_apart_reads_a_repetition_per_file_and_metric_info_gives_comfort(
    tmp_path: Path, routes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        str(write(tmp_path / f"{k}.json", [raw(str(i), score=s) for i in (1, 2, 3)])) for k, s in ((0, 90), (1, 80))
    ]
    log = MetricLog()
    for tick in range(20):
        log.add(
            GroundTruth(
                tick,
                tick * 0.05,
                Actor(
                    id="ego",
                    kind=ActorKind.CAR,
                    x=tick * 0.5,
                    y=0.0,
                    yaw=0.0,
                    speed=10.0,
                    length=4.5,
                    width=1.9,
                    height=1.5,
                ),
            )
        )
    folder = tmp_path / "metrics" / raw("1")["save_name"]
    folder.mkdir(parents=True)
    (folder / "metric_info.json").write_text(json.dumps(log.to_json()))
    arguments = ["drive", "score", *files, "--routes", routes, "--apart", "--metric-info", str(tmp_path / "metrics")]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["repetitions"]["driving_score"]["values"] == [90.0, 80.0]
    assert found["comfortness"] == 100.0
    assert main(arguments) == 0
    assert "Over 2 repetitions (mean ± standard deviation): driving_score 85.00 ± 7.07" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gone.json"], "no such file or folder"),
        (["RESULTS", "--profile", "mine"], "no profile 'mine'"),
        (["RESULTS", "--routes", "gone.xml"], "no such route file"),
        (["RESULTS", "--metric-info", "gone"], "no such folder"),
        (["RESULTS", "--repetitions", "0"], "0 repetitions"),
        (["OTHER"], "none of the 1 records"),
        (["FAR"], "repetitions: give their number with --repetitions"),
    ],
)
def test_invalid_arguments_end_in_a_one_line_error(
    words: list[str], says: str, tmp_path: Path, routes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {
        "RESULTS": str(write(tmp_path / "r.json", [raw("1")])),
        "OTHER": str(write(tmp_path / "o.json", [raw("9")])),
        "FAR": str(write(tmp_path / "f.json", [raw("1", 999999999)])),
    }
    given = [named.get(word, word) for word in words]
    assert main(["drive", "score", *(["--routes", routes] if "--routes" not in given else []), *given]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
