"""Write docs/licences.md: the licence that each locked package declares, from the metadata of what is installed.

    python scripts/licences.py          # in an environment installed from the lock with [dev]

Where a package declares none, or no single one, STATED has what its files contain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import lock_file

PAGE = Path(__file__).resolve().parent.parent / "docs" / "licences.md"
# Read in the package's licence files, since its metadata names no licence, a file, or several that differ.
STATED = {
    "hf-transfer": "Apache-2.0",
    "pycocoevalcap": "none in the package; conda-forge: MIT AND BSD-2-Clause",
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "rouge": "Apache-2.0",
    "rv-ltl": "none in the package, its index page or its repository",
    "transformers-stream-generator": "MIT",
    "zss": "BSD",
}
SPDX = {  # what metadata contain in addition to SPDX expressions
    "apache": "Apache-2.0", "apache 2.0": "Apache-2.0", "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0", "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0", "2-clause bsd": "BSD-2-Clause", "freebsd": "BSD-2-Clause",
    "bsd 3-clause license": "BSD-3-Clause", "3-clause bsd license": "BSD-3-Clause", "bsd license": "BSD", "bsd": "BSD",
    "mit license": "MIT", "the mit license (mit)": "MIT", "psfl": "PSF-2.0", "isc license (iscl)": "ISC",
    "python software foundation license": "PSF-2.0", "gplv3+": "GPL-3.0-or-later", "lgpl v2.1": "LGPL-2.1",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
}  # fmt: skip
COPYLEFT = {"GPL": r"(?<![AL])GPL", "LGPL": "LGPL", "MPL": "MPL"}
_SPDX_FORM = re.compile(r"(?=.*[\d-]|MIT\b)[\w.+-]+(?: (?:AND|OR) [\w.+-]+)*")
_HEAD = """\
# Licences of the dependencies

    python scripts/licences.py    # writes this page from the metadata of the installed packages

This package is under Apache-2.0 ([LICENSE](../LICENSE)). Its dependencies are installed by pip and are not part of it.
The table has what each package of [requirements/lock.txt](../requirements/lock.txt) declares, or what its licence file
contains; "BSD": the variant is not declared.

Copyleft: {copyleft}.
Whoever distributes an environment or an image that contains these packages must follow their terms, too.

Not in the metadata:

- pycocoevalcap contains stanford-corenlp-3.4.1.jar (GPL-3.0-or-later) and meteor-1.5.jar (LGPL): Java processes.
- Wheels contain libraries under other licences: opencv-python-headless FFmpeg (LGPL), av FFmpeg with x264, x265 (GPL).
- CUDA builds of torch install packages of NVIDIA (nvidia-*, cuda-*) under NVIDIA's proprietary licences.
- rv-ltl (a dependency of Scenic) states no licence.

| package | version | licence | needed by |
|---|---|---|---|
"""


def main() -> int:
    rows = {}
    for package in lock_file.read_lock():
        rows[package.name] = (package.version, licence(package.name), " ".join(package.extras))
    for line in lock_file.read_torch():
        name, _, version = line.partition("==")
        rows[name] = (version, licence(name), lock_file.BASE)
    unknown = sorted(name for name, row in rows.items() if not row[1])
    if unknown:
        raise SystemExit(f"no licence in the metadata of {', '.join(unknown)}: read their files, add them to STATED")
    PAGE.write_text(page(rows), "utf-8")
    print(f"{PAGE.name}: {len(rows)} packages")
    return 0


def licence(name: str) -> str:
    """The licence of an installed package as an SPDX expression or in STATED's words; empty if none is declared."""
    if name in STATED:
        return STATED[name]
    about = metadata.metadata(name)
    if expression := about.get_all("License-Expression"):
        return expression[0]
    text = "".join(about.get_all("License") or ()).strip().partition("\n")[0].strip()  # of some, a whole licence text
    found = SPDX.get(text.lower()) or (text if _SPDX_FORM.fullmatch(text) else "")
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if "License ::" in line]
    stated = [SPDX.get(line.lower(), "") for line in classifiers]
    # A classifier is more precise than "BSD", and the only statement if the field contains a whole licence text.
    return found or " AND ".join(dict.fromkeys(filter(None, stated)))


def page(rows: Mapping[str, tuple[str, str, str]]) -> str:
    names = {
        kind: [name for name in sorted(rows) if re.search(pattern, rows[name][1])] for kind, pattern in COPYLEFT.items()
    }
    copyleft = "; ".join(f"{kind}: {', '.join(found)}" for kind, found in names.items() if found)
    lines = [f"| {name} | {' | '.join(rows[name])} |" for name in sorted(rows)]
    return _HEAD.format(copyleft=copyleft) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
