"""Decorator for numba kernels, whose machine code is cached in a folder named by a hash of all kernel sources.

Numba checks only the file in which a cached function is defined. A kernel that calls a function of another file would
keep that function's old code. With a hash of the sources in the folder's name, a changed kernel is always recompiled.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trm_data.storage.cache import user_cache

if TYPE_CHECKING:
    from trm_data.show.progress import Progress

PACKAGE = Path(__file__).resolve().parent
KERNEL_ROOMS = ("encode.py", "kinds", "seeds", "symmetry")
"""Packages and modules with functions and constants that kernels in other files use."""
KERNEL = re.compile(rb"^@(inner_)?kernel\b", re.M)
IMPORT = re.compile(rb"^from trm_data\.([a-z_.]+) import", re.M)

COMPILING = {"NUMBA_OPT": "2"}
"""Environment of processes that compile: level 3 takes 1.3 times as long for the same speed (docs/scale.md)."""
UNUSED = ("scipy.linalg", "cffi")
"""Optional imports of numba, for BLAS and C functions; no kernel here calls them."""


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function at its first call, or load it from the cache; it runs without the GIL.

    Args:
        function: The function, with `@kernel`; None with `@kernel(...)`.
        options: Further options of `numba.njit`.
    """

    from numba import config, njit  # slow to import, and not needed for the folder name

    def decorate(function: Callable[..., Any]) -> Any:
        settings = cast(Any, config)
        before = settings.CACHE_DIR
        settings.CACHE_DIR = str(kernel_folder())
        try:
            return njit(cache=True, nogil=True, **options)(function)
        finally:
            settings.CACHE_DIR = before

    return decorate if function is None else decorate(function)


def inner_kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that only kernels call; this is faster, because no wrapper for Python is compiled."""
    return kernel(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def compile_parts(module: str, progress: Progress, *, generated: bool) -> None:
    """Compile a kind's kernels into the cache, a process for each part.

    Args:
        module: The kind's module `warm`.
        progress: Progress of a build.
        generated: Whether its puzzles are generated.
    """
    parts = import_module(module).PARTS
    progress.start("compile kernels, once on this machine", len(parts), "parts")
    with ExitStack() as stack:
        running: list[subprocess.Popen[bytes]] = []
        for part in parts:
            code = f"from {module} import {part.__name__}; {part.__name__}(generated={generated})"
            # what fails here is compiled, or fails with its message, where the build needs it
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", code], env=COMPILING | os.environ, stderr=subprocess.DEVNULL
            )
            running.append(stack.enter_context(process))
            stack.callback(process.kill)
        for process in running:
            process.wait()
            progress.advance(1)


@contextmanager
def without_unused() -> Generator[None, None, None]:
    """Keep numba from importing `UNUSED` within the block, which saves 0.2 s."""
    held = [name for name in UNUSED if name not in sys.modules]
    for name in held:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        for name in held:
            del sys.modules[name]


def kernel_folder() -> Path:
    """Return the folder of compiled kernels: in `NUMBA_CACHE_DIR`, else in the user's cache, named by a source hash."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    base = Path(chosen).absolute() if chosen else user_cache() / "kernels"
    return base / kernel_digest(PACKAGE)


def _room(path: Path, package: Path) -> str:
    return path.relative_to(package).parts[0]


@cache
def kernel_digest(package: Path) -> str:
    """Return a hash of the files with kernels, and of their imports from `KERNEL_ROOMS`: 16 hex digits."""
    sources = {path: path.read_bytes() for path in package.rglob("*.py")}
    found: set[Path] = set()
    todo = [path for path, source in sources.items() if KERNEL.search(source)]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            imported = (
                package / f"{name.decode().replace('.', '/')}.py" for name in IMPORT.findall(sources[path])
            )
            todo += [
                other for other in imported if other in sources and _room(other, package) in KERNEL_ROOMS
            ]
    digest = hashlib.sha256()
    for path in sorted(found):
        source = sources[path]
        digest.update(f"{path.relative_to(package).as_posix()} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]
