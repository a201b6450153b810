"""A build request: source, sizes and name of a dataset."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from trm_data.sources.base import SourceRef
from trm_data.specs import Choices, DatasetSpec, SourceSpec


@dataclass(frozen=True, kw_only=True)
class BuildRequest(Choices):
    """A dataset to build; the digests of its sources are not known yet."""

    source: SourceRef
    test_source: SourceRef | None = None
    name: str | None = None

    def dataset_name(self) -> str:
        """Return the given name, or a name from kind, source, size, augmentation and non-default values."""
        unusual = self.options.choice_words()
        if self.seed:
            unusual += ["seed", str(self.seed)]
        return self._name(unusual)

    def names(self) -> tuple[str, ...]:
        """Return the dataset's name, and its older names, without seed and choice, or without the repository."""
        found = [self.dataset_name(), self._name([])]
        if self.source.repository:
            published = replace(self, source=replace(self.source, path=""))
            found += [published.dataset_name(), published._name([])]
        return tuple(dict.fromkeys(found))

    def _name(self, unusual: list[str]) -> str:
        if self.name is not None:
            return self.name
        words = self.options.name_words(self.kind, self.source)
        if self.size is not None:
            words.append(str(self.size))
        words += ["aug", str(self.aug), *unusual]
        return "-".join([*words, "virtual"] if self.augment == "virtual" else words)

    def spec(self, source: SourceSpec, test_source: SourceSpec | None) -> DatasetSpec:
        """Return the specification, with the digests of the sources."""
        chosen = {field.name: getattr(self, field.name) for field in fields(Choices)}
        return DatasetSpec(**chosen, source=source, test_source=test_source)
