"""The first build of a kind on a machine compiles its kernels: this says so, and shows how far it is.

The compiled kernels are in `kernel_folder()`. Where that folder cannot be written, numba chooses another one, and
nothing is shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import trm_data
from trm_data.kinds.registry import find_kind
from trm_data.show.progress import Progress
from trm_data.specs import Options
from trm_data.storage.machine import kernel_folder

PACKAGE = Path(trm_data.__file__).parent
LOOK_S = 0.2
"""Time between two looks at what is compiled."""
PROGRAM = """\
import importlib, sys
module = importlib.import_module(sys.argv[1])
getattr(module, "compile_rest", lambda missing: None)(sys.argv[2:])
"""


def uncompiled(kind: str, options: Options | None = None, package: Path = PACKAGE) -> list[Path]:
    """Modules of kernels that builds of a kind, with these options, need and this machine has not compiled yet."""
    sources = [package / f"{name}.py" for name in _kernels(kind, options)]
    return [source for source in sources if not _is_compiled(source)]


def compile_seconds(kind: str, options: Options) -> float:
    """About how long it takes to compile what is not yet."""
    missing = {source.stem for source in uncompiled(kind, options)}
    return sum(seconds for name, seconds in _kernels(kind, options).items() if Path(name).name in missing)


def _kernels(kind: str, options: Options | None) -> dict[str, float]:
    """Modules of kernels that builds need, and seconds that each takes to compile."""
    parts = find_kind(kind)
    if parts is None:
        return {}
    return {**parts.kernels, **({} if options is None else parts.more_kernels(options))}


def compile_kernels(kind: str, missing: list[Path], progress: Progress) -> None:
    """Compile them in a process of its own; a kernel that cannot be compiled fails where it is needed."""
    parts = find_kind(kind)
    assert parts is not None
    progress.start("compile kernels, once on this machine", len(missing), "modules")
    told = 0
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, parts.warm, *(source.stem for source in missing)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    ) as compiler:
        try:
            while compiler.poll() is None:
                time.sleep(LOOK_S)
                done = sum(map(_is_compiled, missing))
                progress.advance(max(done - told, 0))
                told = max(done, told)
        except BaseException:
            compiler.kill()
            raise
    progress.advance(sum(map(_is_compiled, missing)) - told)


def _is_compiled(source: Path) -> bool:
    """Whether the cache has an index of compiled functions of a module, as new as the module."""
    folder = kernel_folder()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.W_OK):
        return True
    changed = source.stat().st_mtime
    found = folder.glob(f"{source.parent.name}_*/{source.stem}.*.nbi")
    return any(index.stat().st_mtime >= changed for index in found)
