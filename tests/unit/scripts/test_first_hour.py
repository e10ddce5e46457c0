"""scripts/first_hour.py: arguments, the commands of a dry run, and the selection of routes; nothing is evaluated."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.scripts import script

from closedloop_plugin.core.routes import Route
from closedloop_plugin.scenarios.suites.lookup import DEMO, VARIABLE, suite

MODELS = ("qwen=qwen2_5_vl,pretrained=Qwen/A,batch_size=8,max_new_tokens=64", "llava=llava_hf,pretrained=llava/B")


@pytest.fixture(scope="module")
def first_hour() -> ModuleType:
    return script("first_hour")


@pytest.fixture
def route_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The six demo routes, as if they were Bench2Drive's."""
    monkeypatch.setenv(VARIABLE, str(DEMO))


def printed(first_hour: ModuleType, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    """Stage -> command or reason, in order, of a dry run."""
    assert first_hour.main([*MODELS, "--dry-run", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        if line.startswith("# "):
            name, _, reason = line[2:].partition(": ")
            found[name] = reason or lines[number + 1]
    return found


@pytest.mark.usefixtures("route_file")
def test_a_dry_run_prints_all_commands_and_writes_nothing(
    first_hour: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "o"
    found = printed(first_hour, capsys, "--out", str(out), "--routes", "2", "--limit", "3")
    drivers = ["straight", "steer-only", "expert", "speaking-expert", "qwen", "llava"]
    answerers = ["ad2_chance", "ad2_majority", "ad2_oracle", "qwen", "llava"]
    assert list(found) == [
        *(f"questions {name}" for name in answerers), *(f"demo {name}" for name in drivers),
        *(f"routes {name}" for name in drivers), "report",
    ]  # fmt: skip
    assert found["questions qwen"] == (
        "ad2 eval --tasks 'ad2demo_*' --judge lexical --config strict_requests=true --limit 3 --model qwen2_5_vl "
        "--model-args device_map=cuda,pretrained=Qwen/A --batch-size 8 --device cuda --frame model_input "
        f"--out {out}/runs/qwen/questions -- --gen_kwargs max_new_tokens=64"
    )
    assert "--frame unit" in found["questions llava"] and "--gen_kwargs" not in found["questions llava"]
    assert found["routes qwen"] == (
        "ad2 drive run --suite embedded220 --routes-ids 102,105 --workers 4 --retry-failed "
        "--agent lmms:qwen2_5_vl,device=cuda,device_map=cuda,pretrained=Qwen/A,max_new_tokens=64,batch_size=8 "
        f"--size 800x450 --config decision_hz=2 --out {out}/runs/qwen/routes"
    )
    assert "--limit 3" in found["demo expert"] and "decision_hz" not in found["demo expert"]
    assert "--config tasks=action --interpreter rules --config decision_hz=2" in found["demo speaking-expert"]
    assert not out.exists()


def test_without_the_route_file_its_stages_are_left_out(
    first_hour: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.xml"))
    found = printed(first_hour, capsys, "--no-baselines")
    assert "ad2 drive routes bench2drive220.xml" in found["routes qwen"]
    assert found["demo qwen"].startswith("ad2 drive run")
    assert "routes qwen" not in printed(first_hour, capsys, "--no-baselines", "--routes", "0")


@pytest.mark.usefixtures("route_file")
def test_the_device_reaches_both_commands(first_hour: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    cpu = printed(first_hour, capsys, "--device", "cpu")
    assert "device_map=cpu" in cpu["questions llava"] and "--device cpu" in cpu["questions llava"]
    assert "device=cpu,device_map=cpu" in cpu["demo llava"]
    none = printed(first_hour, capsys, "--device", "none")
    assert "device" not in none["questions llava"] + none["demo llava"]


def test_the_frame_is_that_of_the_family_unless_it_is_given(
    first_hour: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def frame(text: str) -> str:
        assert first_hour.main([f"a={text}", "--dry-run", "--no-baselines", "--routes", "0"]) == 0
        printed = capsys.readouterr().out
        assert "frame=" not in printed
        return printed.partition("--frame ")[2].split(" ", 1)[0]

    assert frame("qwen3_vl,pretrained=Qwen/C") == frame("vllm,model=Qwen/C,frame=thousand") == "thousand"
    assert frame("qwen3_vl,pretrained=mine/trained,frame=pixel") == "pixel"
    assert frame("vllm,model=Qwen/C") == frame("internvl_hf,pretrained=a/b") == "", (
        "a model of any family: the tasks' own"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["qwen2_5_vl,pretrained=a"], "expected NAME=WRAPPER"), (["a b=qwen2_5_vl"], "expected NAME=WRAPPER"),
        (["a=qwen2_5_vl,pretrained"], "KEY=VALUE"), (["a=qwen2_5_vl,pretrained=/nowhere/x"], "no such file or folder"),
        (["a=qwen2_5_vl,pretrained=~/x"], "does not expand"), (["a=m", "a=n"], "given twice"),
        (["expert=m"], "of a baseline"), (["a=m", "--routes", "221"], "--routes 221: from 0 to 220"),
        (["a=m", "--workers", "0"], "--workers 0: 1 or more"), (["a=m", "--device", "gpu"], "--device gpu"),
        (["a=m", "--limit", "0"], "--limit 0: 1 or more"),
        (["a=m", "--decision-hz", "nan"], "--config decision_hz=nan: must be above 0"),
        (["a=m", "--decision-hz", "-1"], "--config decision_hz=-1: must be above 0"),
        (["a=m", "--decision-hz", "21"], "--config decision_hz=21: must be above 0"),
        (["a=m", "--size", "foo"], "expected a size like 800x450 (16 to 8192 pixels), found 'foo'"),
        (["a=m", "--tasks", "ad2demo_nosuch"], "--tasks: no task 'ad2demo_nosuch'"),
        (["a=m", "--tasks", "ad2_relation"], "--tasks: task ad2_relation: dataset"),
        (["a=m", "--tasks", ""], "--tasks '': no task"), (["a=m", "--tasks", ", "], "--tasks ', ': no task"),
        (["a=m,frame=pixels"], "a: frame: no coordinate frame 'pixels'; did you mean 'pixel'?"),
        (["a=m,pretrained=models/vlm/nosuch"], "a: pretrained=models/vlm/nosuch: no such file or folder"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    first_hour: ModuleType, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    for dry in ([], ["--dry-run"]):
        assert first_hour.main([*words, *dry]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ") and says in line


def test_names_of_other_tasks_are_looked_up_in_lmms_eval(
    first_hour: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text("task: own")
    assert first_hour.main(["a=m", "--dry-run", "--tasks", f"ad2demo_relation,mme,mm*,{tmp_path / 'own.yaml'}"]) == 0
    for name in ("nosuch", "nosuch*", "ad2demo_nosuch*"):
        capsys.readouterr()
        assert first_hour.main(["a=m", "--dry-run", "--tasks", f"ad2demo_relation,{name}"]) == 2
        assert (error := capsys.readouterr().err).startswith("error: --tasks: no task") and f"'{name}'" in error


def test_an_id_of_the_hub_is_no_folder(
    first_hour: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["first_hour_checks"], "HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "hub" / "models--models--loaded").mkdir(parents=True)

    def code(text: str) -> int:
        return int(first_hour.main([f"a=llava_hf,{text}", "--dry-run"]))

    assert code("pretrained=models/nonexist") == 0
    assert f"note: a: pretrained=models/nonexist: not here, not in {tmp_path / 'hub'}" in capsys.readouterr().err
    assert code("pretrained=models/loaded") == code("base_url=http://a/b/c") == code("revision=refs/pr/1") == 0
    assert capsys.readouterr().err == ""
    (tmp_path / "models" / "here").mkdir(parents=True)
    assert code("pretrained=models/here") == code("pretrained=models/loaded") == code("pretrained=gpt2") == 0
    assert capsys.readouterr().err == ""
    assert code("pretrained=models/nonexist") == code("adapter_path=models/nonexist") == 2
    assert capsys.readouterr().err.count("models/nonexist: no such file or folder; docs/first-hour.md") == 2


def test_a_gpu_that_is_not_there_is_refused_before_the_first_stage(
    first_hour: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert first_hour.main(["a=llava_hf", "--device", "cuda:99", "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: --device cuda:99: PyTorch cannot use it here")
    assert not (tmp_path / "out").exists()


def test_no_model_is_refused(first_hour: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        first_hour.main([])
    assert end.value.code == 2
    assert "NAME=WRAPPER" in capsys.readouterr().err


def made_routes(**numbers: int) -> list[Route]:
    """So many routes of each type, with ids <type><number>."""
    return [
        Route(f"{kind}{n}", "Town01", ((0, 0), (1, 0)), kind, kind, (0, 0, 0))
        for kind, count in numbers.items()
        for n in range(count)
    ]


def test_routes_are_spread_over_the_types(first_hour: ModuleType) -> None:
    routes = made_routes(b=2, a=2, d=1, c=2)  # rounds: a0 b1 c0 d0, then a1 b0 c1
    ids = {n: [route.id for route in first_hour.spread(routes, n)] for n in range(1, 9)}
    assert ids[1] == ["a0"]
    assert ids[2] == ["a0", "c0"]
    assert ids[4] == ["a0", "b1", "c0", "d0"]
    assert ids[5] == ["a0", "b1", "c0", "d0", "a1"]
    assert ids[6] == ["a0", "b1", "c0", "d0", "a1", "b0"]
    assert sorted(ids[7]) == sorted(route.id for route in routes)
    assert ids[8] == ids[7]


def test_the_twenty_routes_of_bench2drive(
    first_hour: ModuleType, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(data_dir / "bench2drive" / "bench2drive220.xml"))
    routes = suite("embedded220").routes
    twenty = first_hour.spread(routes, 20)
    assert " ".join(route.id for route in twenty) == (
        "2534 2989 25424 3090 11755 24258 23687 23695 3048 26990 2847 25383 3255 26393 17563 26966 26458 3189 3876 2943"
    )
    assert len({route.scenario for route in twenty}) == 20
    assert len({route.scenario for route in first_hour.spread(routes, 44)}) == 44
    assert {route.id for route in first_hour.spread(routes, 220)} == {route.id for route in routes}
