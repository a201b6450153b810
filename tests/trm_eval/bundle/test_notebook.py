"""The notebook as a document; `tests/e2e/test_bundle.py` runs it."""

from __future__ import annotations

import json

from trm_eval.bundle.notebook import Recipe, notebook_bytes

RECIPE = Recipe(
    run="trm_arc1-0123abcd-s0", step=1000, python="3.12", aug=7, virtual=True, seed=3, minutes=2.5
)


def test_it_is_a_notebook_of_the_format_with_code_that_compiles() -> None:
    found = json.loads(notebook_bytes(RECIPE))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in found["cells"]]
    assert len(set(ids)) == len(ids)
    kinds = [cell["cell_type"] for cell in found["cells"]]
    assert kinds == ["markdown", *["code"] * (len(kinds) - 1)]
    for cell in found["cells"][1:]:
        assert (cell["execution_count"], cell["outputs"]) == (None, [])
        compile("".join(cell["source"]), cell["id"], "exec")
        assert not any("!" in line[:1] or "%" in line[:1] for line in cell["source"])


def test_it_says_what_the_bundle_is_of() -> None:
    text = "".join("".join(cell["source"]) for cell in json.loads(notebook_bytes(RECIPE))["cells"])
    assert "RUN, PYTHON, AUG, AUGMENT, SEED = 'trm_arc1-0123abcd-s0', '3.12', 7, 'virtual', 3" in text
    assert '"TRM_MINUTES", 2.5' in text
    assert "(step 1,000)" in text
    assert "{wheels" not in text
