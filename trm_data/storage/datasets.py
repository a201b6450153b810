"""The files of datasets, wherever the root is: read, verified at reading, and published whole.

A local root holds them as they are. Of a root on a bucket (`bucket`), files are read through a cache on this
machine (`cache`), and written into the layout's local folder, checked and then uploaded. Everything
that touches a file of a dataset comes through here, so that a file that is not what its manifest says is never read.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from trm_data.errors import BuildError, CorruptDatasetError, DatasetNotFoundError
from trm_data.specs import NAME_PATTERN, check_name
from trm_data.storage.atomic import check_file, file_sha256, write_bytes
from trm_data.storage.bucket import Bucket
from trm_data.storage.cache import adopt, cached_file
from trm_data.storage.naming import sidecar_name, temporary_path
from trm_data.storage.root import Layout

MANIFEST = "manifest.json"
CLAIM = ".building"
AT_A_TIME = 16
"""Objects that are asked for at a time."""

FILE_PATTERN = re.compile(
    r"(train|validation|test)-\d{5}-of-\d{5}\.array_record|catalog/[a-z_]{1,40}\.(parquet|json)"
)
SHA256_PATTERN = re.compile(r"[0-9a-f]{64}")


class StoredFile(Protocol):
    """What a manifest says of a file."""

    @property
    def file(self) -> str:
        """Name within the dataset's folder."""
        ...

    @property
    def size_bytes(self) -> int:
        """Size."""
        ...

    @property
    def sha256(self) -> str:
        """Digest of its bytes, hexadecimal."""
        ...


def check_entry(file: StoredFile) -> None:
    """A manifest's entry names a file that a dataset can have: no path that leads anywhere else.

    Raises:
        CorruptDatasetError: It does not.
    """
    name, sha256, size = str(file.file), str(file.sha256), str(file.size_bytes)
    if not (FILE_PATTERN.fullmatch(name) and SHA256_PATTERN.fullmatch(sha256) and size.isdecimal()):
        raise CorruptDatasetError(f"names {name!r} of {size} bytes, which can be no file of a dataset")


def place(layout: Layout, name: str) -> str:
    """Where a dataset lies, as a person knows it."""
    return f"{layout.url}/datasets/{name}" if layout.url else str(layout.dataset(name))


def dataset_names(layout: Layout) -> list[str]:
    """Names of the datasets under a root, those that have a manifest.

    A bucket's listing may be behind: what it names may be gone, and what it lacks can be opened by name.
    """
    if layout.url:
        found = Bucket(layout.url).names("datasets/", f"*/{MANIFEST}")
        names = [path.split("/")[1] for path in found]
        return sorted(name for name in names if NAME_PATTERN.fullmatch(name) and ".." not in name)
    if not layout.datasets.is_dir():
        return []
    return sorted(path.parent.name for path in layout.datasets.glob(f"*/{MANIFEST}"))


def read_manifest_bytes(layout: Layout, name: str) -> bytes:
    """The manifest file of a dataset.

    Raises:
        DatasetNotFoundError: There is none; the message says which datasets there are.
        BucketError: The bucket cannot be reached, or refuses.
    """
    content = _manifest(layout, name)
    if content is None:
        known = dataset_names(layout)
        have = f"there are: {', '.join(known)}" if known else "there are none yet: trm-data build sudoku"
        raise DatasetNotFoundError(f"no dataset {name!r} under {layout.place} ({have})")
    return content


def _manifest(layout: Layout, name: str) -> bytes | None:
    if layout.url:
        return Bucket(layout.url).read(object_name(name, MANIFEST))
    try:
        return (layout.dataset(name) / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_file(layout: Layout, name: str, file: StoredFile, *, fresh: bool = False) -> Path:
    """A file of a dataset on this machine, with the bytes that its manifest names.

    Args:
        layout: The root.
        name: The dataset.
        file: The file.
        fresh: Read what the bucket holds now, even if this machine has the file.

    Raises:
        CorruptDatasetError: It is missing, shorter or longer, or has other bytes.
        BucketError: The bucket cannot be reached, or refuses.
    """
    check_entry(file)
    if layout.url:
        bucket, path = Bucket(layout.url), object_name(name, file.file)
        return cached_file(
            file.sha256,
            file.size_bytes,
            lambda target: bucket.download(path, target),
            bucket.where(path),
            fresh=fresh,
        )
    path = layout.dataset(name) / file.file
    check_file(path, size_bytes=file.size_bytes, sha256=file.sha256)
    return path


def damaged_files(layout: Layout, name: str, files: Sequence[StoredFile]) -> list[str]:
    """What is wrong with these files where they lie: one line each that is missing or has other bytes.

    Of files on a bucket nothing is read: it says their sizes and what their digests were when they were uploaded.

    Raises:
        BucketError: The bucket cannot be reached, or refuses.
    """
    for file in files:
        check_entry(file)
    with ThreadPoolExecutor(AT_A_TIME if layout.url else 1) as pool:
        return [problem for problem in pool.map(lambda file: _damage(layout, name, file), files) if problem]


def _damage(layout: Layout, name: str, file: StoredFile) -> str:
    if not layout.url:
        try:
            open_file(layout, name, file)
        except CorruptDatasetError as error:
            return str(error)
        return ""
    bucket, path = Bucket(layout.url), object_name(name, file.file)
    there = bucket.stat(path)
    if there is None:
        return f"{bucket.where(path)}: is missing"
    if (there.size_bytes, there.sha256) != (file.size_bytes, file.sha256):
        return f"{bucket.where(path)}: has other bytes than the manifest says"
    return ""


def publish_file(layout: Layout, name: str, file: StoredFile, source: Path) -> bool:
    """Bring a whole file to its place under the root.

    Args:
        layout: The root.
        name: The dataset.
        file: The file.
        source: Where it is now; it stays there.

    Returns:
        Whether it was not there yet.

    Raises:
        BuildError: It changed on the way.
        BucketError: The bucket cannot be reached, or refuses.
        OSError: It could not be written.
    """
    check_entry(file)
    if layout.url:
        return Bucket(layout.url).upload(object_name(name, file.file), source, file.sha256)
    target = layout.dataset(name) / file.file
    if target == source or not _damage(layout, name, file):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(target)
    try:
        shutil.copyfile(source, temporary)
        if file_sha256(temporary) != file.sha256:
            raise BuildError(f"{source}: changed while it was being copied; nothing else may write there")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def publish_built(layout: Layout, name: str, file: StoredFile) -> None:
    """A file that a build has written into the dataset's folder is whole: on a bucket, upload it.

    What this machine has then is the cache's, so that the dataset need not be fetched to be used here.

    Raises:
        BuildError: It changed on the way.
        BucketError: The bucket cannot be reached, or refuses.
    """
    if layout.url:
        source = layout.dataset(name) / file.file
        publish_file(layout, name, file, source)
        adopt(source, file.sha256)


def read_note(layout: Layout, name: str, file: str) -> bytes | None:
    """A small file of the dataset's folder that no manifest names, such as a sidecar; None where there is none."""
    if layout.url:
        return Bucket(layout.url).read(object_name(name, file))
    try:
        return (layout.dataset(name) / file).read_bytes()
    except FileNotFoundError:
        return None


def publish_note(layout: Layout, name: str, file: str, content: bytes) -> None:
    """Write a small file of the dataset's folder that no manifest names."""
    if layout.url:
        Bucket(layout.url).write(object_name(name, file), content)
    else:
        write_bytes(layout.dataset(name) / file, content)


def publish_manifest(layout: Layout, name: str, content: bytes) -> bool:
    """Write the manifest: from now on there is the dataset.

    Returns:
        False if a bucket has another manifest of that name, which stays; a local root's lock keeps others away.
    """
    if layout.url:
        return Bucket(layout.url).create(object_name(name, MANIFEST), content)
    write_bytes(layout.dataset(name) / MANIFEST, content)
    return True


def withdraw_manifest(layout: Layout, name: str) -> None:
    """Remove the manifest: from now on there is no dataset, only files that a build may use again."""
    if layout.url:
        bucket, path = Bucket(layout.url), object_name(name, MANIFEST)
        if (stored := bucket.stat(path)) is not None:
            bucket.delete(path, stored.generation)
    else:
        (layout.dataset(name) / MANIFEST).unlink(missing_ok=True)


def remove_temporary(layout: Layout, name: str) -> None:
    """Remove what killed builds were writing on this machine."""
    for path in layout.dataset(name).rglob(".tmp-*"):
        path.unlink(missing_ok=True)


def remove_leftovers(layout: Layout, name: str, shards: Iterable[str]) -> None:
    """Remove what killed or differently divided builds left: never anything that is not ours.

    Args:
        layout: The root.
        name: The dataset.
        shards: File names of the shards that stay.
    """
    wanted = set(shards)
    wanted |= {sidecar_name(shard) for shard in wanted}
    folder = layout.dataset(name)
    remove_temporary(layout, name)
    for path in {*folder.glob("*.array_record"), *folder.glob("*.array_record.json")}:
        if path.name not in wanted:
            path.unlink()
    if layout.url:
        bucket, prefix = Bucket(layout.url), object_name(name, "")
        for path in bucket.names(prefix, "*"):
            file = path.removeprefix(prefix)
            if FILE_PATTERN.fullmatch(file.removesuffix(".json")) and file not in wanted:
                bucket.delete(path)


def clear_local(layout: Layout, name: str) -> None:
    """Remove what a build to a bucket has left on this machine; a local root is left as it is."""
    if layout.url:
        shutil.rmtree(layout.dataset(name), ignore_errors=True)


def remove_dataset(layout: Layout, name: str, files: Iterable[StoredFile] = ()) -> None:
    """Remove a dataset, its manifest first, so that no half of it looks like one.

    Args:
        layout: The root.
        name: The dataset.
        files: What its manifest names, in case a bucket's listing is behind.
    """
    withdraw_manifest(layout, name)
    shutil.rmtree(layout.dataset(name), ignore_errors=True)
    if layout.url:
        bucket, prefix = Bucket(layout.url), object_name(name, "")
        found = {*bucket.names(prefix), *(prefix + file.file for file in files)}
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            list(pool.map(bucket.delete, found - {prefix + CLAIM}))


def object_name(name: str, file: str) -> str:
    """Name of an object under the root's URL."""
    return f"datasets/{check_name(name)}/{file}"
