"""The table `experiments`: every named experiment at every scale and data where it runs, from the registry.

An alias has the identity of the run that it shares, so that a query finds that run under all its names. An experiment
that has another dataset where files are missing (`trm_train.experiments.sources`) has a row for each.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from trm_eval.tables.schema import EXPERIMENTS
from trm_train.config.run import RunConfig, identity_hash
from trm_train.experiments.registry import Experiment, load_experiments
from trm_train.experiments.setting import Setting
from trm_train.experiments.sources import without_files


def experiment_table() -> pa.Table:
    """All experiments, a row for each scale and data."""
    rows = [
        _row(item, setting, config)
        for item in load_experiments().values()
        for setting in item.settings
        for config in [item.make(setting), without_files(item.make(setting))]
        if config is not None
    ]
    return pa.Table.from_pylist(rows, schema=EXPERIMENTS)


def _row(item: Experiment, setting: Setting, config: RunConfig) -> dict[str, Any]:
    alias_of, quantity = item.alias_of(setting), item.quantity
    return {
        "experiment": item.name,
        "experiment_group": item.group,
        "scale": setting.scale,
        "data": setting.data,
        "alias_of": alias_of,
        "runs_of": alias_of or item.name,
        "identity": identity_hash(config),
        "dataset": config.data.label,
        "total_steps": config.total_steps,
        "varies": item.own(config),
        "quantity": None if quantity is None else quantity.name,
        "value": None if quantity is None else quantity.of(config),
        "unit": None if quantity is None else quantity.unit,
        "supervision_steps": getattr(config.model, "halt_max_steps", None),
        "question": item.summary,
    }
