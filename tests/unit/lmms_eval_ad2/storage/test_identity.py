"""Run identity: what must be equal for one folder, what may differ, and the message of a difference."""

from __future__ import annotations

import json
import os
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from support.running import REPO

import lmms_eval_ad2
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage import identity as run_identity
from lmms_eval_ad2.storage.identity import (
    RESULTS,
    RUN,
    check_folder,
    check_identity,
    checkout_commit,
    code_identity,
    code_label,
    differences,
    digest,
    installed_commit,
    read_run,
    refuse_differences,
    run_folder,
    write_run,
)
from lmms_eval_ad2.storage.lock import lock_folder

COMMIT_1, COMMIT_2 = "1" * 40, "2" * 40


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    command = ["git", *who, "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit and a tag."""
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("a = 1\n")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "tag", "-a", "v1", "-m", "release")
    return tmp_path


@pytest.mark.integration
def test_the_commit_of_a_checkout_is_its_full_hash(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert checkout_commit(checkout) == head and len(head) == 40
    (checkout / "notes.txt").write_text("not tracked\n")
    monkeypatch.setenv("GIT_DIR", "/no/such/repository")  # as set in a git hook of another repository
    assert checkout_commit(checkout) == head
    (checkout / "code.py").write_text("a = 2\n")
    assert checkout_commit(checkout) == f"{head}+dirty"


@pytest.mark.integration
def test_a_second_worktree_has_its_own_commit(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(checkout, "worktree", "add", "-q", str(other))
    git(other, "commit", "-qm", "second", "--allow-empty")
    assert (other / ".git").is_file()
    assert checkout_commit(other) == git(other, "rev-parse", "HEAD") != checkout_commit(checkout)


@pytest.mark.integration
def test_without_git_or_a_commit_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    assert checkout_commit(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout_commit(REPO) is None


@pytest.mark.integration
def test_the_running_code_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run_identity.source_commit.cache_clear()
    found = code_identity()
    monkeypatch.setattr(subprocess, "run", None)
    assert code_identity() == found == {"version": lmms_eval_ad2.__version__, "commit": run_identity.source_commit()}


@pytest.mark.parametrize(
    ("direct_url", "commit"),
    [
        ({"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": COMMIT_1}}, COMMIT_1),
        ({"url": "file:///src", "dir_info": {"editable": True}}, None),
        ({"vcs_info": {"commit_id": "main\n\x1b[31m"}}, None),
        ([], None),
        (None, None),
    ],
)
def test_an_installed_package_has_the_commit_that_pip_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_url: object, commit: str | None
) -> None:
    info = tmp_path / "lmms_eval_ad2-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lmms-eval-ad2\nVersion: 0.2.0\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    monkeypatch.setattr(metadata, "distribution", lambda name: metadata.PathDistribution(info))
    assert installed_commit(tmp_path / "lmms_eval_ad2") == commit
    assert installed_commit(tmp_path / "elsewhere" / "lmms_eval_ad2") is None  # another copy is imported


def test_a_package_that_is_not_installed_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_identity, "DISTRIBUTION", "no-such-distribution")
    assert installed_commit(tmp_path) is None


def test_labels() -> None:
    assert code_label() == f"{lmms_eval_ad2.__version__}+{'0' * 12}"
    assert code_label("0.2.0", COMMIT_1) == "0.2.0+111111111111"
    assert (
        code_label("0.2.0", f"unknown, {COMMIT_1}, {COMMIT_2}+dirty") == "0.2.0+unknown,111111111111,222222222222.dirty"
    )
    assert code_label("0.1.0", "") == code_label("0.1.0", None) == "0.1.0"


IDENTITY = {"agent": {"name": "expert"}, "seed": 1, "suite": "demo"}


def started_run(folder: Path) -> Path:
    """A run folder with a result."""
    write_run(folder, IDENTITY, {"routes": ["101"], "repetitions": 1})
    (folder / RESULTS).write_bytes(b"{}\n")
    return folder


def test_differences_are_reported_with_nested_names() -> None:
    stored = {"a": {"b": 1, "c": 2}, "d": [1]}
    assert differences(stored, {"a": {"b": 1, "c": 3}, "d": [1], "e": None}) == ["a.c is 2 there and 3 here"]
    assert differences(stored, stored) == []


def test_long_values_are_shortened() -> None:
    (message,) = differences({"a": "x" * 200}, {"a": "y"})
    assert message.endswith('... there and "y" here') and len(message) < 120


def test_differences_of_nested_and_new_settings() -> None:
    found = differences({"agent": {"model": "a", "x": 1}}, {"agent": {"model": "b" * 99, "x": 1}, "new": True})
    assert found[0].startswith('agent.model is "a" there and "bbb')
    assert len(found[0]) < 110
    assert found[1] == "new is not set there and true here"


def test_refusal_is_one_line_with_a_remedy() -> None:
    with pytest.raises(Ad2Error) as caught:
        refuse_differences(Path("out"), {"seed": 0, "n": 2}, {"seed": 1, "n": 3}, "questions made", "settings")
    assert str(caught.value) == (
        "out holds questions made with other settings: n is 2 there and 3 here; seed is 0 there and 1 here. "
        "Choose another --out, or the same settings"
    )


def test_values_are_compared_as_read_from_json() -> None:
    refuse_differences(Path("out"), {"size": [1, 2], "3": "x"}, {"size": (1, 2), 3: "x"}, "a run")  # type: ignore[dict-item]


def test_the_description_is_read_back(tmp_path: Path) -> None:
    write_run(tmp_path, {"b": "ä", "a": 1}, {"routes": []})
    assert (tmp_path / RUN).read_text("utf-8") == '{"identity": {"a": 1, "b": "ä"}, "selection": {"routes": []}}'
    assert read_run(tmp_path) == {"identity": {"a": 1, "b": "ä"}, "selection": {"routes": []}}


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"identity": 1, "selection": {}}', "\0"])
def test_invalid_description_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN).write_text(text)
    with pytest.raises(Ad2Error, match=r"run.json: not a run description"):
        check_identity(tmp_path, IDENTITY)


def test_folder_without_description_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"no run\.json"):
        read_run(tmp_path)
    check_identity(tmp_path, IDENTITY)


def test_the_selection_may_differ_and_the_identity_may_not(tmp_path: Path) -> None:
    started_run(tmp_path)
    write_run(tmp_path, IDENTITY, {"routes": ["101", "102"], "repetitions": 3})
    check_identity(tmp_path, IDENTITY)
    with pytest.raises(
        Ad2Error, match=r"holds a run with other arguments: seed is 1 there and 2 here\. Choose another"
    ):
        check_identity(tmp_path, {**IDENTITY, "seed": 2})
    with pytest.raises(Ad2Error, match="suite"):
        check_identity(tmp_path, {"agent": {"name": "expert"}, "seed": 1})


def test_long_values_are_shown_where_they_differ() -> None:
    """A GPU with less memory: batch_size=1 after 600 equal characters."""
    there, here = (f"pretrained=/models/{'x' * 600}/m,batch_size={n},device=cuda,dtype=auto" for n in (8, 1))
    (line,) = differences({"agent": {"args": there}}, {"agent": {"args": here}})
    assert line == (
        'agent.args is ...xxxxxx/m,batch_size=8,device=cuda,dtype=auto" there and '
        '...xxxxxx/m,batch_size=1,device=cuda,dtype=auto" here'
    )
    assert differences({"a": "x" * 99}, {"a": "x" * 98}) == [
        f'a is ...{"x" * 19}xx" there and ...{"x" * 19}x" here'
    ]  # fmt: skip
    assert differences({"a": None}, {"a": "y" * 99}) == [f'a is not set there and "{"y" * 53}... here']


def test_a_part_of_the_identity_is_compared_alone(tmp_path: Path) -> None:
    started_run(tmp_path)
    check_identity(tmp_path, {"seed": 1}, part=True)
    with pytest.raises(Ad2Error, match="seed is 1 there and 2 here"):
        check_identity(tmp_path, {"seed": 2}, part=True)


@pytest.mark.parametrize("results", [None, b"", b'{"half": '])
def test_a_folder_without_a_result_accepts_any_identity(tmp_path: Path, results: bytes | None) -> None:
    started_run(tmp_path)
    (tmp_path / RESULTS).unlink()
    if results is not None:
        (tmp_path / RESULTS).write_bytes(results)
    check_identity(tmp_path, {**IDENTITY, "seed": 2})


def test_check_folder_refuses_unusable_folders_and_creates_nothing(tmp_path: Path) -> None:
    check_folder(tmp_path / "new" / "deep", IDENTITY)
    assert not (tmp_path / "new").exists(), "nothing is made"
    (tmp_path / "file").write_text("")
    with pytest.raises(Ad2Error, match="is a file; a folder is needed"):
        check_folder(tmp_path / "file", IDENTITY)
    with pytest.raises(Ad2Error, match="nothing can be created"):
        check_folder(tmp_path / "file" / "below", IDENTITY)
    (tmp_path / "loop").symlink_to("loop")
    for link in (tmp_path / "loop", tmp_path / "loop" / "below"):
        with pytest.raises(Ad2Error, match=r"nothing can be created in .*loop"):
            check_folder(link, IDENTITY)
    started_run(tmp_path / "run")
    check_folder(tmp_path / "run", {"seed": 1})
    with pytest.raises(Ad2Error, match="seed is 1 there and 2 here"):
        check_folder(tmp_path / "run", {"seed": 2})
    with lock_folder(tmp_path / "run"), pytest.raises(Ad2Error, match="another process"):
        check_folder(tmp_path / "run", {"seed": 1})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(Ad2Error, match="nothing can be created"):
            check_folder(tmp_path / "out", IDENTITY)
    finally:
        tmp_path.chmod(0o700)


ONE, TWO = "1" * 40, "2" * 40


def test_another_version_is_refused_with_the_version_to_use(tmp_path: Path) -> None:
    there, here = {"version": "0.1.0", "seed": 1}, {"version": "0.2.0", "seed": 1}
    with pytest.raises(Ad2Error) as caught:
        refuse_differences(Path("out"), there, here, "a run")
    assert str(caught.value) == (
        'out holds a run with other arguments: version is "0.1.0" there and "0.2.0" here. '
        "Choose another --out, or continue with lmms-eval-ad2 0.1.0"
    )
    with pytest.raises(Ad2Error, match=r"or continue with lmms-eval-ad2 0\.1\.0 and the same arguments$"):
        refuse_differences(Path("out"), there, {**here, "seed": 2}, "a run")
    with pytest.raises(Ad2Error, match=r"version is not set there .*, or continue with the version that wrote it$"):
        refuse_differences(Path("out"), {"seed": 1}, here, "a run")


def test_another_commit_continues_with_one_warning_and_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(commit: str | None) -> str:
        check_identity(tmp_path, {**IDENTITY, "commit": commit})
        write_run(tmp_path, {**IDENTITY, "commit": commit}, {"routes": []})
        return capsys.readouterr().err

    assert start(ONE) == start(TWO) == ""  # nothing was driven with ONE
    assert read_run(tmp_path)["identity"]["commit"] == TWO
    (tmp_path / RESULTS).write_bytes(b"{}\n")
    assert start(TWO) == ""
    warning = start(f"{ONE}+dirty")
    assert f"{tmp_path} has results of commit {TWO}, and this is {ONE}+dirty" in warning and warning.count("\n") == 1
    assert start(TWO) == start(f"{ONE}+dirty") == ""
    assert "this is unknown" in start(None)
    assert read_run(tmp_path)["identity"]["commit"] == f"{TWO}, {ONE}+dirty, unknown"


def test_a_run_without_a_known_commit_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started_run(tmp_path)  # of a version without commits
    write_run(tmp_path, {**IDENTITY, "commit": None}, {"routes": []})
    assert read_run(tmp_path)["identity"]["commit"] is None
    assert capsys.readouterr().err == ""
    write_run(tmp_path, {**IDENTITY, "commit": ONE}, {"routes": []})
    assert read_run(tmp_path)["identity"]["commit"] == f"unknown, {ONE}"


def test_same_model_and_arguments_have_the_same_folder() -> None:
    """The names are those of 0.1.0, whose runs are resumed."""
    assert digest({"b": 1, "a": Path("x")}) == digest(json.loads('{"a": "x", "b": 1}'))
    one = run_folder(Path("out"), "org/some model", {"model": "hf", "args": "a=1"})
    assert one == Path("out/ad2/org_some_model-f44cfd1a")
    assert run_folder(Path("out"), "org/some model", {"args": "a=1", "model": "hf"}) == one
    assert run_folder(Path("out"), "org/some model", {"model": "hf", "args": "a=2"}) != one
    assert run_folder(Path("out"), "///", {}).name.startswith("model-")
    assert len(run_folder(Path("out"), "x" * 200, {}).name) == 69


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ('{"identity": {}, "selection": {"routes": [["a"]]}}', "selection.routes"),
        ('{"identity": {}, "selection": {"routes": [], "asked": "a"}}', "selection.asked"),
        ('{"identity": {}, "selection": {"routes": null}}', "selection.routes"),
        ('{"identity": {"suite": "\\ud800"}, "selection": {}}', "not a run description"),
    ],
)
def test_a_changed_description_is_one_line(run: str, message: str, tmp_path: Path) -> None:
    (tmp_path / RUN).write_text(run, "utf-8")
    with pytest.raises(Ad2Error, match=f"run.json.*{message}") as caught:
        read_run(tmp_path)
    assert "\n" not in str(caught.value)
