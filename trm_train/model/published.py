"""Published parameter names and layouts, to ours and back.

Published matrices are [out, in] and ours [in, out]; embeddings and vectors are the same. Names may carry
the prefix `model.` or `_orig_mod.model.` (a compiled model). Input and output: dicts of numpy arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trm_train.config.model import ModelConfig
from trm_train.config.run import InputSpec
from trm_train.errors import CheckpointError
from trm_train.model.base import table_rows

PREFIXES = ("_orig_mod.model.", "model.")
TABLE = "inner.puzzle_emb.weights"
FIXED = {"inner.H_init": "h_init", "inner.L_init": "l_init"}

Path = tuple[str, ...]


def parameter_names(config: ModelConfig) -> Iterator[tuple[str, Path, bool]]:
    """Every trained parameter: published name, path in our tree, whether the matrix is transposed."""
    yield "inner.embed_tokens.embedding_weight", ("embedding", "tokens"), False
    if config.pos_encodings == "learned":
        yield "inner.embed_pos.embedding_weight", ("embedding", "positions"), False
    yield "inner.lm_head.weight", ("lm_head", "kernel"), True
    yield "inner.q_head.weight", ("q_head", "kernel"), True
    yield "inner.q_head.bias", ("q_head", "bias"), False
    for i in range(config.num_layers):
        theirs, ours = f"inner.L_level.layers.{i}", ("level", f"block_{i}")
        if config.mixer == "mlp_t":
            yield f"{theirs}.mlp_t.gate_up_proj.weight", (*ours, "token_mlp", "gate_up", "kernel"), True
            yield f"{theirs}.mlp_t.down_proj.weight", (*ours, "token_mlp", "down", "kernel"), True
        else:
            yield f"{theirs}.self_attn.qkv_proj.weight", (*ours, "attention", "qkv", "kernel"), True
            yield f"{theirs}.self_attn.o_proj.weight", (*ours, "attention", "out", "kernel"), True
        yield f"{theirs}.mlp.gate_up_proj.weight", (*ours, "mlp", "gate_up", "kernel"), True
        yield f"{theirs}.mlp.down_proj.weight", (*ours, "mlp", "down", "kernel"), True


def without_prefix(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same tensors under names that start with `inner.`."""
    bare = {}
    for name, tensor in tensors.items():
        prefix = next((p for p in PREFIXES if name.startswith(p)), "")
        bare[name.removeprefix(prefix)] = tensor
    return bare


def params_from_published(config: ModelConfig, tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The tree of trained parameters, float32.

    Raises:
        CheckpointError: One is missing.
    """
    tree: dict[str, Any] = {}
    for name, path, transposed in parameter_names(config):
        if name not in tensors:
            raise CheckpointError(f"parameter {name} is missing; got {', '.join(sorted(tensors)) or 'none'}")
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
        value = np.asarray(tensors[name], np.float32)
        node[path[-1]] = np.ascontiguousarray(value.T if transposed else value)
    return tree


def params_to_published(config: ModelConfig, params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Inverse of `params_from_published`; works on any tree of the same structure (gradients, an EMA)."""
    tensors = {}
    for name, path, transposed in parameter_names(config):
        node: Any = params
        for key in path:
            node = node[key]
        value = np.asarray(node)
        tensors[name] = value.T if transposed else value
    return tensors


def weights_from_published(
    config: ModelConfig, spec: InputSpec, tensors: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray], np.ndarray | None]:
    """Parameters, fixed latents and the (padded) puzzle table from a published state.

    Raises:
        CheckpointError: A parameter is missing or unknown, or the table has another shape than configured.
    """
    tensors = without_prefix(tensors)
    expected = {name for name, _, _ in parameter_names(config)} | set(FIXED)
    if config.puzzle_width > 0:
        expected.add(TABLE)
    if set(tensors) != expected:
        missing, unknown = sorted(expected - set(tensors)), sorted(set(tensors) - expected)
        raise CheckpointError(f"published parameters do not fit: missing {missing}, unknown {unknown}")
    params = params_from_published(config, tensors)
    fixed = {ours: np.asarray(tensors[name], np.float32) for name, ours in FIXED.items()}
    if config.puzzle_width == 0:
        return params, fixed, None
    rows = np.asarray(tensors[TABLE], np.float32)
    if rows.shape != (spec.num_identifiers, config.puzzle_width):
        raise CheckpointError(
            f"{TABLE}: expected shape {(spec.num_identifiers, config.puzzle_width)}, got {rows.shape}"
        )
    table = np.zeros((table_rows(spec.num_identifiers), rows.shape[1]), np.float32)
    table[: len(rows)] = rows
    return params, fixed, table


def weights_to_published(
    config: ModelConfig,
    spec: InputSpec,
    params: Mapping[str, Any],
    fixed: Mapping[str, Any],
    puzzle_table: Any,
) -> dict[str, np.ndarray]:
    """Inverse of `weights_from_published`, without a prefix and without the padding of the table."""
    tensors = params_to_published(config, params)
    tensors |= {name: np.asarray(fixed[ours]) for name, ours in FIXED.items()}
    if puzzle_table is not None:
        tensors[TABLE] = np.asarray(puzzle_table)[: spec.num_identifiers]
    return tensors
