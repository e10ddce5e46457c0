"""advlm_server as a command: settings, one-line errors, --check, and shutdown."""

from __future__ import annotations

import ast
import json
import signal
import socket
import sys
from pathlib import Path

import pytest
from support.bench2drive.advlm_serving import (
    ADAPTER,
    ECHO,
    chat,
    data_url,
    oldest_python,
    picture,
    python_name,
    run_adapter,
    serving,
)

pytestmark = pytest.mark.integration

SINCE_37 = {"graphlib", "zoneinfo", "tomllib"}  # modules added after Python 3.7


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(ECHO, "utf-8")
    return tmp_path


def test_adapter_parses_as_python_3_7_and_imports_only_the_standard_library() -> None:
    tree = ast.parse(ADAPTER.read_text("utf-8"), feature_version=(3, 7))
    with pytest.raises(SyntaxError):
        ast.parse("if (n := 1): pass", feature_version=(3, 7))  # the check can fail
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    assert {name.partition(".")[0] for name in names} - (set(sys.stdlib_module_names) - SINCE_37) == {"PIL"}
    (lazy,) = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == "PIL"]
    assert lazy.col_offset > 0 and lazy not in tree.body  # inside AdvlmImage.pil


@pytest.mark.parametrize("python", [oldest_python()[0], sys.executable], ids=[python_name(), "ours"])
def test_check_asks_once_about_grey_images(model: Path, python: str) -> None:
    code, out, err = run_adapter(
        model, "model.py:answer", "--check", "--cameras", "a,b", "--question", "Go?", python=python
    )
    assert (code, out) == (0, "2 images: Go?\n")
    assert any("asked about 2 grey image(s)" in line for line in err)


def test_the_grey_image_of_check_opens_in_pillow(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "def answer(images, question):\n    i = images[0].pil()\n    return '%s %s' % (i.size, i.getpixel((9, 9)))\n"
    )
    code, out, _ = run_adapter(tmp_path, "m.py:answer", "--check", python=sys.executable)
    assert (code, out) == (0, "(1600, 900) (128, 128, 128)\n")


def test_check_reports_a_failing_model_with_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def answer(images, question):\n    return images[5]\n")
    code, out, err = run_adapter(tmp_path, "m.py:answer", "--check")
    assert (code, out) == (2, "") and err[-1].startswith("advlm_server: error: the model failed: IndexError")
    assert err[0].startswith("advlm_server: m is ok") and "Traceback (most recent call last):" in err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "no function given"),
        (["nowhere.py:answer"], "expected FILE.py:FUNCTION with an existing file"),
        (["model.py"], "expected FILE.py:FUNCTION"),
        (["model.py:reply"], "expected a function reply(images, question), found none of that name"),
        (["one.py:answer"], "expected answer(images, question), found answer(images)"),
        (["load.py:answer"], "expected answer(images, question, model), found answer(images, question)"),
        (["load2.py:answer"], "expected load(), found load(options)"),
        (["missing.py:answer"], "ModuleNotFoundError: No module named 'tensorfield'; is this the model's own"),
        (["model.py:answer", "--port", "x"], "port: expected a number from 0 to 65535, found 'x'"),
        (["model.py:answer", "--workers", "0"], "workers: expected a number from 1 to 64"),
        (["model.py:answer", "--timeout", "nan"], "timeout: expected a number"),
        (["model.py:answer", "--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY (--api-key-env) is not set"),
        (["model.py:answer", "--config", "none.json"], "none.json: expected a JSON object of settings"),
        (["model.py:answer", "--config", "list.json"], "list.json: expected a JSON object"),
        (["model.py:answer", "--config", "odd.json"], "odd.json: unknown setting prot; known: entry, about, name"),
        (["model.py:answer", "--config", "port.json"], "port: expected a number from 0 to 65535, found [1]"),
        (["model.py:answer", "--config", "name.json"], "name: expected a text, found 7"),
    ],
)  # fmt: skip
def test_invalid_arguments_end_in_a_one_line_error(model: Path, words: list[str], named: str) -> None:
    for file, text in {
        "one.py": "def answer(images): pass", "load.py": "def load(): pass\ndef answer(images, question): pass",
        "load2.py": "def load(options): pass\ndef answer(images, question, model): pass",
        "missing.py": "import tensorfield", "list.json": "[1]", "odd.json": '{"prot": 1}',
        "port.json": '{"port": [1]}', "name.json": '{"name": 7}',
    }.items():  # fmt: skip
        (model / file).write_text(text)
    code, out, err = run_adapter(model, *words)
    assert (code, out) == (2, "") and err[-1].startswith("advlm_server: error: ") and named in err[-1]
    assert len(err) == 1 or words[0] == "missing.py:answer"  # there the traceback shows the failing import


def test_a_port_in_use_is_reported_in_one_line(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run_adapter(model, "model.py:answer", "--port", port)
    assert code == 2 and len(err) == 1
    assert f"cannot listen at 127.0.0.1:{port}: Address already in use; take another --port" in err[0]


def test_command_line_options_override_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/model.py").write_text(ECHO)
    config = {"entry": "model.py:answer", "name": "mine", "max_images": 1, "port": 1, "about": {"any": ["thing"]}}
    (tmp_path / "sub/c.json").write_text(json.dumps(config))
    with serving(tmp_path, "", "--config", "sub/c.json", "--max-images", 2) as server:
        server.wait_for("mine at http")
        assert server.ask(chat("x", *[data_url(picture())] * 2, model="mine")) == (200, "2 images: x")
        assert server.ask(chat("x", *[data_url(picture())] * 3, model="mine"))[0] == 400


def test_a_model_can_import_from_its_folder_and_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "entries").mkdir()
    (tmp_path / "weights_here.py").write_text("WORD = 'from the current folder'")
    (tmp_path / "entries/beside.py").write_text("WORD = 'from beside'")
    (tmp_path / "entries/m.py").write_text(
        "import beside, sys, weights_here\ndef answer(images, question):\n"
        "    return beside.WORD + ', ' + weights_here.WORD + str(any('bench2drive' in p for p in sys.path))\n"
    )
    code, out, _ = run_adapter(tmp_path, "entries/m.py:answer", "--check")
    assert (code, out) == (0, "from beside, from the current folderFalse\n")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_cleanly_while_the_model_runs(tmp_path: Path, signum: int) -> None:
    code = "import threading\ndef answer(images, question):\n    threading.Event().wait()\n"
    with serving(tmp_path, code, "--timeout", 0.05) as server:
        while not server.health()["running"]:  # with so short a time limit, its turn may not have come
            assert server.ask(chat())[0] == 504
        assert server.stop(signum) == 0
        assert server.lines[-2].startswith("advlm_server: ended: 0 waiting, 0 answered")


def test_a_server_on_all_interfaces_without_a_key_prints_a_warning(tmp_path: Path) -> None:
    with serving(tmp_path, ECHO, "--host", "0.0.0.0") as server:
        assert server.wait_for("every client that reaches this machine")
        assert server.ask(chat("x"))[0] == 200
