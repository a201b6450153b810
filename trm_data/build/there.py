"""Whether the dataset that is asked for is there already, and whose its name is."""

from __future__ import annotations

from trm_data.errors import BuildError, CorruptDatasetError, SpecError
from trm_data.manifest import Manifest, find_manifest
from trm_data.specs import BUILDER_VERSION, DatasetSpec
from trm_data.storage.datasets import DatasetFolder


def already_built(folder: DatasetFolder, spec: DatasetSpec) -> Manifest | None:
    """The manifest, if the dataset is there whole.

    Raises:
        SpecError: The name belongs to another dataset.
        BuildError: There is a manifest that cannot be read, so whose dataset it is cannot be known.
    """
    try:
        manifest = find_manifest(folder)
    except CorruptDatasetError as error:
        raise BuildError(f"{error}; to build it anew, delete {folder.place}") from error
    if manifest is None:
        return None
    if manifest.spec_digest != spec.digest():
        raise SpecError(
            f"the name {folder.name!r} is taken by another dataset ({_difference(manifest, spec)}); choose another "
            f"with --name, or remove it: trm-data rm {folder.name}"
        )
    return None if folder.damaged(manifest.files) else manifest


def _difference(manifest: Manifest, spec: DatasetSpec) -> str:
    """In which fields the dataset that is there differs from the one asked for."""
    if manifest.builder_version != BUILDER_VERSION:
        return f"builder version {manifest.builder_version}, now {BUILDER_VERSION}"
    there, asked = manifest.spec.to_json(), spec.to_json()
    return ", ".join(
        f"{key}: {there[key]} there, {asked[key]} asked" for key in asked if there[key] != asked[key]
    )
