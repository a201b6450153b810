"""Run a coverage-guided fuzzer on a reader: python tests/harness/guided.py ROOT FOLDER READER [libFuzzer options].

Needs atheris (pip install atheris), which the test in `test_inputs` looks for. ROOT has a dataset `small` and one run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
with atheris.instrument_imports(
    include=["trm_data.sources", "trm_data.manifest", "trm_data.specs", "trm_data.named"]
):
    from tests.harness.test_inputs import EXPECTED, METRICS_EXPECTED, readers
    from trm_data.storage.root import resolve_root
    from trm_train.runs.record import list_runs


def main() -> None:
    """Run until libFuzzer ends the process, with an exit code above 0 if a reader raised."""
    root, folder, name, *options = sys.argv[1:]
    layout = resolve_root(root)
    (run,) = list_runs(layout)
    reader = readers(SimpleNamespace(layout=layout, folder=run), Path(folder))[name]
    expected = METRICS_EXPECTED if name == "metric part" else EXPECTED
    corpus = Path(folder) / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "seed").write_bytes(reader.seed)

    def once(content: bytes) -> None:
        try:
            reader.read(content)
        except expected:
            return

    atheris.Setup([sys.argv[0], f"-artifact_prefix={folder}/", "-max_len=20000", *options, str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
