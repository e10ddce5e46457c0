"""The commit of a checkout and of an installed package; labels of a version."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from support.running import REPO

import lmms_eval_ad2
from lmms_eval_ad2.storage import code_state
from lmms_eval_ad2.storage.code_state import checkout_commit, code_identity, code_label, installed_commit

ONE, TWO = "1" * 40, "2" * 40


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
    code_state.source_commit.cache_clear()
    found = code_identity()
    monkeypatch.setattr(subprocess, "run", None)
    assert code_identity() == found == {"version": lmms_eval_ad2.__version__, "commit": code_state.source_commit()}


@pytest.mark.parametrize(
    ("direct_url", "commit"),
    [
        ({"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": ONE}}, ONE),
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
    monkeypatch.setattr(code_state, "DISTRIBUTION", "no-such-distribution")
    assert installed_commit(tmp_path) is None


def test_labels() -> None:
    assert code_label() == f"{lmms_eval_ad2.__version__}+{'0' * 12}"
    assert code_label("0.2.0", ONE) == "0.2.0+111111111111"
    assert code_label("0.2.0", f"unknown, {ONE}, {TWO}+dirty") == "0.2.0+unknown,111111111111,222222222222.dirty"
    assert code_label("0.1.0", "") == code_label("0.1.0", None) == "0.1.0"
