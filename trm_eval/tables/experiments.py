"""The table `experiments`: every named experiment at every scale and data where it runs, from the registry.

An alias has the identity of the run that it shares, so that a query finds that run under all its names.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from trm_eval.tables.schema import EXPERIMENTS
from trm_train.config.run import identity_hash
from trm_train.experiments.registry import Experiment, load_experiments
from trm_train.experiments.setting import Setting


def experiment_table() -> pa.Table:
    """All experiments, a row for each scale and data."""
    rows = [_row(item, setting) for item in load_experiments().values() for setting in item.settings]
    return pa.Table.from_pylist(rows, schema=EXPERIMENTS)


def _row(item: Experiment, setting: Setting) -> dict[str, Any]:
    config, alias_of = item.make(setting), item.alias_of(setting)
    quantity = item.quantity
    return {
        "experiment": item.name,
        "experiment_group": item.group,
        "scale": setting.scale,
        "data": setting.data,
        "alias_of": alias_of,
        "runs_of": alias_of or item.name,
        "identity": identity_hash(config),
        "varies": item.own(config),
        "quantity": None if quantity is None else quantity.name,
        "value": None if quantity is None else quantity.of(config),
        "unit": None if quantity is None else quantity.unit,
        "supervision_steps": getattr(config.model, "halt_max_steps", None),
        "question": item.summary,
    }
