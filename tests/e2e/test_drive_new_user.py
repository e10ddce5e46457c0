"""Mistakes of a new user of `ad2 drive`, and the results that must survive them. In the fake world."""

from __future__ import annotations

import http.server
import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from closedloop_plugin.scenarios.suites.lookup import DEMO
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.testing.fake_endpoint import serve

FAKE = ("--world", "closedloop_plugin.worlds.testing.fake_world:FakeWorld")


def drive(*words: object) -> int:
    return main(["drive", *map(str, words)])


def run_demo(out: Path, *words: object, agent: str = "still", routes: str = "101") -> int:
    return drive("run", "--suite", "demo", "--routes-ids", routes, "--agent", agent, "--out", out, *FAKE, *words)


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error message of a command, without the lines of the progress bar before it."""
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error.strip().splitlines()[-1]


@pytest.fixture
def web_page() -> Iterator[str]:
    """URL of a web server that is not a model."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html><body>hello</body></html>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "tasks=action"), "--agent still sets the controls itself: --config tasks would have no effect"),
        (("--config", "fine_grained=prompt"), "--config fine_grained would have no effect"),
        (("--mode", "cng"), "--mode would have no effect"),
        (("--size", "64x36"), "--size would have no effect"),
        (("--shard", "3/2"), "--shard 3/2: i must be from 1 to N"),
        (("--routes-ids", " , "), "expected ids separated by commas"),
        (("--agent", "endpoint:m@http://127.0.0.1:9/v1,max_retries=0"), "no endpoint answers at http://127.0.0.1:9/v1"),
        (("--agent", "endpoint:m@http://127.0.0.1:9/v1", "--mode", "dcs"), "--mode dcs requires a model as slow"),
        (("--agent", "endpoint:m@http://127.0.0.1:9/v1", "--config", "describer=offline"), "give --interpreter too"),
        (("--agent", "exprt"), "did you mean 'expert'"),
    ],
)
def test_a_mistake_is_reported_and_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[object, ...], message: str
) -> None:
    assert run_demo(tmp_path / "o", *words) == 2
    assert message in one_line(capsys)
    assert not (tmp_path / "o").exists()


def test_an_unknown_scenario_type_is_driven_without_it_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.xml"
    file.write_text(DEMO.read_text().replace('type="ParkedObstacle"', 'type="ParkedObstacel"'))
    words = ("--agent", "still", "--routes-ids", "101", "--out", tmp_path / "o")
    assert drive("run", "--suite", file, *words) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "no program for scenario type 'ParkedObstacel' (did you mean ParkedObstacle?): 1" in output


@pytest.mark.parametrize("place", ["file", "below"])
def test_an_impossible_output_folder_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "file").write_text("")
    assert run_demo(tmp_path / ("file" if place == "file" else "file/o")) == 2
    assert "choose another path" in one_line(capsys)


def test_the_folder_of_another_run_is_refused_before_the_model_is_contacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo(tmp_path / "o") == 0
    unreachable = "endpoint:m@http://127.0.0.1:9/v1"
    assert run_demo(tmp_path / "o", "--seed", 7, agent=unreachable) == 2
    assert "seed is 0 there and 7 here" in one_line(capsys)
    assert run_demo(tmp_path / "o", agent="straight") == 2
    assert 'agent.name is "still" there and "straight" here' in one_line(capsys)
    assert run_demo(tmp_path / "o", "--frames", "--size", "64x36") == 0  # kept files do not change the run


def test_arguments_may_change_before_the_first_episode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", "--suite", "demo", "--limit", 1, "--agent", "still", "--out", tmp_path / "o")
    assert drive(*words, "--world", "no.such:World") == 2
    assert "cannot be imported" in one_line(capsys)
    assert drive(*words, *FAKE) == 0


def test_a_server_without_a_model_gives_no_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], web_page: str
) -> None:
    """Neither a fast nor a slow system is scored; the same command resumes when the model is reachable."""
    assert (
        run_demo(tmp_path / "o", "--size", "64x36", agent=f"endpoint:m@{web_page},max_retries=0", routes="101,102") == 3
    )
    assert "the agent answers nothing" in (output := one_line(capsys))
    assert "<html>" in output
    assert (tmp_path / "o/episodes.jsonl").read_text() == ""
    with serve(reply="Keep going straight") as server:
        slow = ("--interpreter", f"endpoint:m@{web_page},max_retries=0", "--mode", "cng", "--size", "64x36")
        assert run_demo(tmp_path / "o", *slow, agent=f"endpoint:m@{server.url}") == 3
        assert "slow system: no_reply" in one_line(capsys)
        assert run_demo(tmp_path / "o", "--size", "64x36", agent=f"endpoint:m@{server.url}") == 0


def test_an_episode_without_replies_fails_and_the_others_are_driven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten failures end the first episode; the others are driven, and the exit code shows the failure."""
    with serve(reply="Keep going straight", failures=["500"] * 10) as server:
        agent = f"endpoint:m@{server.url},max_retries=0"
        words = ("--size", "64x36", "--config", "decision_hz=1")
        assert run_demo(tmp_path / "o", *words, agent=agent, routes="101,102") == 1
        output = capsys.readouterr().err
        assert "failed: route 101 repetition 0: fault of the endpoint: 10 failures in a row" in output
        assert "add --retry-failed to the same command" in output
        assert run_demo(tmp_path / "o", *words, "--retry-failed", agent=agent, routes="101,102") == 0


def test_a_model_whose_replies_cannot_be_read_stops_after_twenty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with samples; `ad2 drive read` shows the same reason; the same command resumes."""
    with serve(reply="I like \x1b[31mturtles") as server:
        agent = f"endpoint:m@{server.url}"
        assert run_demo(tmp_path / "o", "--size", "64x36", agent=agent, routes="101,102") == 2
        assert server.requests == 20
        assert run_demo(tmp_path / "two", "--size", "64x36", "--workers", 2, agent=agent, routes="101,102") == 2
        assert server.requests <= 20 + 20 + 1
    output = one_line(capsys)
    assert output.startswith("error: 20 replies in a row cannot be read: ")
    sample = r"'I like \x1b[31mturtles' (no_action)"
    assert output.count(sample) == 3 and f"{tmp_path / 'two/logs/unread.jsonl'}; `ad2 drive read --profile" in output
    assert (tmp_path / "o/episodes.jsonl").read_text() == ""
    replies = [json.loads(line) for line in (tmp_path / "o/logs/unread.jsonl").read_text().splitlines()]
    assert len(replies) == 20
    assert drive("read", "--profile", "bench2advlm", replies[0]["reply"]) == 0
    assert "unread: no_action" in capsys.readouterr().out
    with serve(reply="Keep going straight") as server:
        assert run_demo(tmp_path / "o", "--size", "64x36", agent=f"endpoint:m@{server.url}", routes="101,102") == 0


def test_a_model_that_is_read_once_in_twenty_replies_drives_on(tmp_path: Path) -> None:
    replies = itertools.count(1)
    with serve(reply=lambda body: "I like turtles" if next(replies) % 20 else "Keep going straight") as server:
        agent = f"endpoint:m@{server.url}"
        assert run_demo(tmp_path / "o", "--size", "64x36", agent=agent) == 0
    record = json.loads((tmp_path / "o/episodes.jsonl").read_text())
    assert record["counts"]["unparsed"] > 20


def test_unread_replies_of_the_slow_system_count_and_zero_never_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(reply="Keep going straight") as server:
        slow = ("--interpreter", f"endpoint:m@{server.url}", "--mode", "dcs", "--size", "64x36")
        words = ("--config", "decision_hz=1", *slow)
        assert (
            run_demo(tmp_path / "o", *words, "--config", "stop_after_unread=5", agent=f"endpoint:m@{server.url}") == 2
        )
        output = one_line(capsys)
        assert "error: 5 replies in a row" in output and "`ad2 drive read --interpreter dcs --profile" in output
        assert (
            run_demo(tmp_path / "o", *words, "--config", "stop_after_unread=0", agent=f"endpoint:m@{server.url}") == 0
        )
    counts = json.loads((tmp_path / "o/episodes.jsonl").read_text())["counts"]
    assert counts["unparsed"] == counts["decisions"] > 20


def test_a_manually_changed_record_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_demo(tmp_path / "o", routes="101,102") == 0
    file = tmp_path / "o/episodes.jsonl"
    first, second = file.read_text().splitlines()
    file.write_text(f"{first}\n{json.dumps({**json.loads(second), 'infractions': 3})}\n")
    assert run_demo(tmp_path / "o", routes="101,102") == 2
    assert "episodes.jsonl, row 2" in (output := one_line(capsys))
    assert "Remove the line" in output
    file.write_text(f"{first}\n")
    assert run_demo(tmp_path / "o", routes="101,102") == 0


def test_the_official_file_counts_routes_that_were_not_driven(tmp_path: Path) -> None:
    """Two of the suite's six routes, once: the file's mean is over six, as the official script's is over 220."""
    assert run_demo(tmp_path / "o", agent="expert", routes="101,102") == 0
    results = json.loads((tmp_path / "o/results.json").read_text())
    scores = [r["scores"]["score_composed"] for r in results["_checkpoint"]["records"]]
    assert sum(scores) > 0
    assert results["driving score"] == pytest.approx(sum(scores) / 6)


def test_the_table_fits_the_terminal_and_names_the_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_demo(tmp_path / "o", "--repetitions", 2, agent="random", routes="101,104") == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 120
    assert "maps of the episodes: 4 corridor" in out
    assert "Over 2 repetitions (mean ± standard deviation)" in out


def test_help_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        drive("run", "--help")
    assert end.value.code == 0
    output = capsys.readouterr().out
    for word in ("examples:", "endpoint:MODEL@URL", "exit code:", "ad2 drive score"):
        assert word in output


def test_closed_loop_tasks_without_routes_show_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lmms_eval_ad2.harness.task_files import TaskFile

    monkeypatch.setenv("AD2_HOME", str(tmp_path))
    monkeypatch.delenv("AD2_BENCH2DRIVE_ROUTES", raising=False)
    assert TaskFile("ad2drive_demo", "ad2drive:demo", "test", "").ready()
    standard = TaskFile("ad2drive_standard", "ad2drive:embedded220", "test", "")
    assert not standard.ready()
    assert "ad2 drive routes" in standard.hint()
