"""`ad2 drive run --dry-run`: what is to come, from one request; every fault on its line; nothing is driven."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration

FAKE = ("--world", "closedloop_plugin.worlds.testing.fake_world:FakeWorld")


def dry(*words: object, rc: int = 0) -> None:
    assert main(["drive", "run", "--dry-run", *FAKE, *map(str, words)]) == rc


def test_requests_images_tokens_and_hours_come_from_one_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six routes of at most 1,250 ticks at 10 Hz, 2 decisions a second: 1,500; two tasks and one slow system."""
    with serve(reply="Keep the speed please.", latency_s=0.2) as server:
        spec = f"endpoint:m@{server.url}"
        dry("--suite", "demo", "--agent", spec, "--out", tmp_path / "o", "--config", "decision_hz=2", "--config",
            "tasks=action,reasoning", "--config", "history=2", "--config", "camera=surround", "--size", "64x36",
            "--interpreter",
            f"endpoint:s@{server.url}", "--workers", 2)  # fmt: skip
        assert server.requests == 2
    out = capsys.readouterr().out
    assert f"episodes   6, of which 0 are done in {tmp_path / 'o'}; 6 to come" in out
    assert "decisions  2 per simulated second: at most 1,500 to come" in out
    assert "requests   2 per decision to endpoint:m, each with 18 images of 64x36: at most 3,000 to come" in out
    assert "requests   1 per decision to endpoint:s, each with 1 image of 64x36: at most 1,500 to come" in out
    assert f"probe      one request to {server.url}" in out
    assert "from the probe: tokens not reported in, 18,000 tokens out" in out  # (2 + 1) requests of 4 words
    assert out.endswith("the run can start\n")
    assert not (tmp_path / "o").exists()


def test_without_the_probe_no_request_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(reply="Stop.") as server:
        dry(
            "--suite",
            "demo",
            "--agent",
            f"endpoint:m@{server.url}",
            "--out",
            tmp_path / "o",
            "--config",
            "no_probe=true",
        )
        assert server.requests == 0
    assert "probe      left out (--config no_probe=true)" in capsys.readouterr().out


def test_finished_episodes_are_not_to_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--suite", "demo", "--agent", "straight", "--out", tmp_path / "o")
    assert main(["drive", "run", *FAKE, *map(str, words), "--routes-ids", "101,102"]) == 0
    before = {file: file.read_bytes() for file in (tmp_path / "o").rglob("*") if file.is_file()}
    capsys.readouterr()
    dry(*words, "--routes-ids", "101,102,103")
    out = capsys.readouterr().out
    assert "episodes   3, of which 2 are done" in out and "at most 1,250 to come, about " in out
    assert "requests   none: no model is asked" in out
    assert {file: file.read_bytes() for file in (tmp_path / "o").rglob("*") if file.is_file()} == before
    for other, why in (("--seed", "seed is 0 there and 1 here"), ("--agent", "agent.name is ")):
        more = {"--seed": "1", "--agent": "still"}
        dry(*words, other, more[other], rc=2)
        assert why in capsys.readouterr().err


def test_all_faults_are_shown_and_the_run_cannot_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    dry("--suite", "nowhere", "--agent", "endpoint:m@http://127.0.0.1:9/v1", "--out", file, "--world", "no.such:World",
        rc=2)  # fmt: skip
    written = capsys.readouterr()
    faults = [line for line in written.err.splitlines() if line.startswith("error: ")]
    assert [any(part in fault for fault in faults) for part in ("127.0.0.1:9", "nowhere", "no.such")] == [True] * 3
    assert written.out.endswith("the run cannot start: 3 to correct, see above\n")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--agent", "expert", "--config", "decision_hz=50"), "--config decision_hz=50"),
        (("--agent", "exprt"), "did you mean 'expert'"),
        (("--agent", "lmms:llava_hg"), "no model 'llava_hg'; did you mean llava_hf"),
        (("--agent", "lmms:llava_hf,temperature=-1"), "temperature: expected a number of at least 0"),
        (("--agent", "expert", "--profile", "bench2drive2"), "no profile 'bench2drive2'"),
        (("--agent", "no_module:Driver"), "cannot be imported"),
        (("--agent", "expert", "--mode", "dcs"), "--mode would have no effect"),
    ],
)
def test_a_fault_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str], why: str) -> None:
    dry("--suite", "demo", "--out", tmp_path / "o", *words, rc=2)
    written = capsys.readouterr()
    assert why in written.err and "Traceback" not in written.err
    assert "the run cannot start: 1 to correct" in written.out


def test_an_endpoint_that_does_not_answer_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(reply="Stop.", failures=["500"] * 9) as server:
        dry("--suite", "demo", "--agent", f"endpoint:m@{server.url}", "--out", tmp_path / "o", rc=2)
        assert server.requests == 1
    assert "the request of the dry run was not answered: http_500" in capsys.readouterr().err


def test_no_probe_belongs_to_the_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "drive",
        "run",
        "--suite",
        "demo",
        "--agent",
        "expert",
        "--config",
        "no_probe=true",
        "--out",
        str(tmp_path / "o"),
    ]
    assert main(words) == 2
    assert "--config no_probe is an option of --dry-run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "decisions"),
    [
        (("--config", "decision_hz=0.25"), "at most 32 to come"),  # ticks 0, 40, ..., 1240
        (("--config", "decision_hz=0.3"), "at most 38 to come"),
        (("--config", "decision_hz=1e-300"), "at most 1 to come"),
        (("--config", "decision_hz=1", "--config", "latency=3"), "at most 42 to come"),  # 0, 3, ..., 123 s
        (("--config", "decision_hz=1", "--repetitions", 3), "at most 375 to come"),
        (("--profile", "bench2drive", "--config", "decision_hz=0.3"), "at most 60 to come"),
        (("--profile", "leaderboard-2.1", "--config", "decision_hz=0.1"), "about at most "),
    ],
)
def test_decisions_are_counted_as_the_run_requests_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[object, ...], decisions: str
) -> None:
    dry("--suite", "demo", "--limit", 1, "--agent", "straight", "--out", tmp_path / "o", *words)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("decisions"))
    assert f": {decisions}" in line
    if "about" in decisions:  # 300 s, and the route at a tenth of 50 km/h
        assert 30 < int(line.split("at most ")[1].split()[0].replace(",", "")) < 100


def test_both_slow_systems_of_the_hybrid_mode_are_named_and_probed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(reply="Stop.") as server:
        spec = f"endpoint:{{}}@{server.url}"
        dry("--suite", "demo", "--agent", spec.format("m"), "--out", tmp_path / "o", "--mode", "hybrid", "--size",
            "64x36", "--interpreter", spec.format("s"), "--config", f"interpreter2={spec.format('t')}")  # fmt: skip
        assert server.requests == 3
    assert "requests   in situations with a threat to endpoint:t, instead of endpoint:s" in capsys.readouterr().out
