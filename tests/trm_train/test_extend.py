"""An extended run keeps its name and continues as if it had been longer from the start."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from tests.support.roots import root_with
from trm_data.storage.atomic import with_digest
from trm_data.storage.root import Layout
from trm_train.checkpoint.manager import weights_steps
from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig, ModelConfig, OptimConfig, RunConfig, planned_steps
from trm_train.console import RunConsole
from trm_train.errors import ConfigError
from trm_train.experiments.registry import Experiment
from trm_train.metrics import CLOCKED, read_metrics
from trm_train.runs.record import CONFIG_FILE, read_record
from trm_train.training.loop import train
from trm_train.training.start import TrainResult

CONSTANT = RunConfig(
    data=DataConfig(dataset="small", global_batch_size=8),
    model=ModelConfig(
        hidden_size=16,
        num_heads=2,
        h_cycles=2,
        l_cycles=1,
        num_layers=1,
        puzzle_emb_len=1,
        halt_max_steps=3,
        forward_dtype="float32",
    ),
    optim=OptimConfig(lr=1e-3, lr_warmup_steps=2, weight_decay=0.1, ema_rate=0.9),
    total_steps=12,
    execution=ExecutionConfig(validate_every=8, checkpoint_every=4, log_every=5),
)


def run(layout: Layout, config: RunConfig = CONSTANT, **options) -> TrainResult:
    with RunConsole(config, quiet=True) as console:
        experiment = Experiment("tiny", "testing", lambda: CONSTANT)
        return train(experiment, config, layout, console, tracking="none", **options)


def fingerprints(result: TrainResult) -> dict[str, int]:
    meta = Path(result.folder.place) / "checkpoints" / "resume" / str(result.step) / "meta" / "metadata"
    return json.loads(meta.read_text())["fingerprints"]


def train_rows(result: TrainResult) -> list[dict]:
    rows = [row for row in read_metrics(result.folder).to_pylist() if row["split"] == "train"]
    return [{name: value for name, value in row.items() if name not in CLOCKED} for row in rows]


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    return root_with("small", tmp_path, small_layout)


def test_an_extended_run_is_the_longer_one_to_the_bit(layout: Layout) -> None:
    short = run(layout)
    extended = run(layout, extend=16)
    longer = run(layout, dataclasses.replace(CONSTANT, total_steps=16))
    assert (short.step, extended.started_at, extended.step, longer.step) == (12, 12, 16, 16)
    assert extended.record.run == short.record.run != longer.record.run
    assert fingerprints(extended) == fingerprints(longer)
    assert train_rows(extended) == train_rows(longer)
    assert extended.record.total_flops == pytest.approx(longer.record.training_flops)
    assert read_record(extended.folder).total_flops == extended.record.total_flops
    stored = json.loads((Path(extended.folder.place) / CONFIG_FILE).read_text())
    assert (stored["config"]["total_steps"], stored["extended_to"]) == (12, 16)
    assert "extended_to" not in json.loads((Path(longer.folder.place) / CONFIG_FILE).read_text())

    # The extension is permanent: the run is finished at its new end, for any later start.
    again = run(layout)
    assert (again.started_at, again.step, again.finished) == (16, 16, True)
    assert run(layout, extend=16).step == 16
    with pytest.raises(ConfigError, match="was extended to 16 already, got 14"):
        run(layout, extend=14)
    with pytest.raises(ConfigError, match="expected more than total_steps"):
        run(layout, extend=12)
    further = run(layout, extend=18)
    assert (further.started_at, further.step) == (16, 18)
    assert weights_steps(further.folder)[-1] == 18
    assert read_record(further.folder).total_steps == 18
    assert run(layout, resume=False).step == 12  # starting over removes the extension


def test_a_schedule_over_training_cannot_be_extended(layout: Layout) -> None:
    decaying = dataclasses.replace(CONSTANT, optim=dataclasses.replace(CONSTANT.optim, lr_min_ratio=0.1))
    with pytest.raises(
        ConfigError, match=r"not with optim.lr_min_ratio 0.1 \(cosine\), which ends at step 12"
    ):
        run(layout, decaying, extend=16)
    assert planned_steps(decaying, None) == 12
    assert planned_steps(CONSTANT, 16) == 16


def test_an_extension_that_cannot_be_is_not_believed_from_a_file(layout: Layout) -> None:
    result = run(layout, dataclasses.replace(CONSTANT, total_steps=4))
    path = Path(result.folder.place) / CONFIG_FILE
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(with_digest({**stored, "extended_to": 3})))
    with pytest.raises(ConfigError, match="extend"):
        read_record(result.folder)
    path.write_text(json.dumps(with_digest({**stored, "extended_to": "many"})))
    with pytest.raises(ConfigError, match="is not a record of a run"):
        read_record(result.folder)


def test_other_forms_train_in_the_loop(layout: Layout) -> None:
    """AdamW, the linear schedule and a changing exploration: trained, stopped and resumed, bit for bit."""
    from trm_train.config.optim import AdamWConfig
    from trm_train.config.values import Linear

    config = dataclasses.replace(
        CONSTANT,
        model=dataclasses.replace(CONSTANT.model, halt_exploration_prob=Linear(0.9, 0.1)),
        optim=AdamWConfig(lr=1e-3, lr_warmup_steps=2, lr_schedule="linear", lr_min_ratio=0.1),
    )
    whole = run(layout, config)
    before = fingerprints(whole), train_rows(whole)
    assert [row["lr"] for row in before[1]][-1] == pytest.approx(1e-4)
    assert read_record(whole.folder).config == config
    for folder in ("resume", "weights"):
        shutil.rmtree(Path(whole.folder.place) / "checkpoints" / folder / "12")
    again = run(layout, config)
    assert (again.started_at, again.step) == (8, 12)
    assert (fingerprints(again), train_rows(again)) == before
