"""Digests of named datasets that were first built under this root and are not recorded in the package.

We do not read the published files before somebody builds from them. The first build of such a dataset writes its
content digest and the revisions of its sources under the root. A later build reads the same revision; rows that differ
are an error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from trm_data.errors import BuildError, CorruptDatasetError
from trm_data.manifest import Manifest
from trm_data.named import NamedDataset
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder

FOLDER = "named"


@dataclass(frozen=True)
class Recorded:
    """Record of the first build of a named dataset under a root."""

    name: str
    content_digest: str
    source: str
    """Source as named in the specification: a file, or REPOSITORY/FILE@COMMIT."""

    @property
    def hub_source(self) -> str | None:
        """The source as `--source` accepts it, if it is at a commit of the hub, else None."""
        file, at, commit = self.source.rpartition("@")
        return f"hf:{file.rpartition('/')[0]}@{commit}" if at and "/" in file else None


def read_recorded(layout: Layout, name: str) -> Recorded | None:
    """Return the record of a named dataset, or None if it was never built here."""
    folder, file = Folder(layout.store, FOLDER), f"{name}.json"
    content = folder.read(file)
    if content is None:
        return None
    try:
        value = parse_json(content)
        if with_digest(value) != value:
            raise ValueError("its digest differs")
        return Recorded(**{field: str(value[field]) for field in ("name", "content_digest", "source")})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptDatasetError(
            f"{folder.where(file)}: is not what was written ({error}); put it back, or remove it so that the next "
            "build records what it gives"
        ) from error


def record(layout: Layout, named: NamedDataset, manifest: Manifest) -> None:
    """Record what was built, or compare it with the existing record."""
    before = read_recorded(layout, named.name)
    now = Recorded(named.name, manifest.content_digest, manifest.spec.source.name)
    folder, file = Folder(layout.store, FOLDER), f"{named.name}.json"
    if before is None:
        folder.write(file, json_bytes(with_digest(asdict(now))))
    elif before.content_digest != now.content_digest:
        raise BuildError(
            f"{named.name}: the content digest is {now.content_digest}, the first build under this root gave "
            f"{before.content_digest} from {before.source}, this one read {now.source}: the source has changed. The "
            f"built dataset stays under this name until you remove "
            f"it (and {folder.where(file)}, if these rows are right)"
        )
