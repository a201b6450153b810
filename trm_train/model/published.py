"""Converts published parameter names and layouts to ours, and back.

Published matrices are [out, in] and ours [in, out]; embeddings and vectors are the same. Names may have the prefix
`model.` or `_orig_mod.model.` (a compiled model). Input and output are dicts of numpy arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trm_train.config.model import BlocksConfig, NetworkConfig, SingleZConfig, TransformerConfig
from trm_train.config.run import InputSpec
from trm_train.errors import CheckpointError
from trm_train.model.base import table_rows

PREFIXES = ("_orig_mod.model.", "model.")
TABLE = "inner.puzzle_emb.weights"

Path = tuple[str, ...]


def has_published_names(config: NetworkConfig) -> bool:
    """Return whether the published code has a network like this one."""
    if not isinstance(config, BlocksConfig) or config.mixer not in ("mlp_t", "attention"):
        return False
    return not getattr(config, "multi_scale", False)


def level_names(config: BlocksConfig) -> dict[str, str]:
    """Return our names of the levels, by published name."""
    if isinstance(config, TransformerConfig):
        return {"inner.H_level": "level"}
    levels = {"inner.L_level": "level"}
    return levels | {"inner.H_level": "high_level"} if config.two_networks else levels


def fixed_names(config: BlocksConfig) -> dict[str, str]:
    """Return our names of the initial states, by published name."""
    names = {"inner.H_init": "h_init", "inner.L_init": "l_init"}
    if isinstance(config, SingleZConfig):
        del names["inner.H_init"]
    if isinstance(config, TransformerConfig):
        del names["inner.L_init"]
    return names


def parameter_names(config: BlocksConfig) -> Iterator[tuple[str, Path, bool]]:
    """Yield every trained parameter: published name, path in our tree, whether the matrix is transposed."""
    yield "inner.embed_tokens.embedding_weight", ("embedding", "tokens"), False
    if config.pos_encodings == "learned":
        yield "inner.embed_pos.embedding_weight", ("embedding", "positions"), False
    yield "inner.lm_head.weight", ("lm_head", "kernel"), True
    yield "inner.q_head.weight", ("q_head", "kernel"), True
    yield "inner.q_head.bias", ("q_head", "bias"), False
    blocks = [(*names, i) for names in level_names(config).items() for i in range(config.num_layers)]
    for their_level, our_level, i in blocks:
        theirs, ours = f"{their_level}.layers.{i}", (our_level, f"block_{i}")
        if config.mixer == "mlp_t":
            yield f"{theirs}.mlp_t.gate_up_proj.weight", (*ours, "token_mlp", "gate_up", "kernel"), True
            yield f"{theirs}.mlp_t.down_proj.weight", (*ours, "token_mlp", "down", "kernel"), True
        else:
            yield f"{theirs}.self_attn.qkv_proj.weight", (*ours, "attention", "qkv", "kernel"), True
            yield f"{theirs}.self_attn.o_proj.weight", (*ours, "attention", "out", "kernel"), True
        yield f"{theirs}.mlp.gate_up_proj.weight", (*ours, "mlp", "gate_up", "kernel"), True
        yield f"{theirs}.mlp.down_proj.weight", (*ours, "mlp", "down", "kernel"), True


def without_prefix(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors without prefix: names start with `inner.`."""
    bare = {}
    for name, tensor in tensors.items():
        prefix = next((p for p in PREFIXES if name.startswith(p)), "")
        bare[name.removeprefix(prefix)] = tensor
    return bare


def published_shapes(
    config: BlocksConfig, params: Mapping[str, Any], fixed: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the published tensors except the puzzle table, from our trees (arrays or their shapes)."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, path, transposed in parameter_names(config):
        node: Any = params
        for key in path:
            node = node[key]
        shapes[name] = tuple(reversed(node.shape)) if transposed else tuple(node.shape)
    return shapes | {name: tuple(fixed[ours].shape) for name, ours in fixed_names(config).items()}


def published_problems(
    config: BlocksConfig,
    params: Mapping[str, Any],
    fixed: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
) -> list[str]:
    """Return the problems of a published state for a network, one per line; the table may have any number of rows.

    Args:
        config: Configuration of the network.
        params: Tree of its parameters, or their shapes.
        fixed: Tree of its initial states, or their shapes.
        tensors: Tensors by published name, with or without a prefix.
    """
    found = without_prefix(tensors)
    shapes = published_shapes(config, params, fixed)
    named = {*shapes, *([TABLE] if config.puzzle_width > 0 else [])}
    problems = [f"missing: {name}" for name in sorted(named - found.keys())]
    problems += [f"unknown: {name}" for name in sorted(found.keys() - named)]
    if len(found) < len(tensors):
        problems.append("names that differ only in their prefix")
    for name in sorted(named & found.keys()):
        shape = found[name].shape
        if name == TABLE:
            if len(shape) != 2 or shape[1] != config.puzzle_width or not shape[0]:
                problems.append(f"{name}: shape {shape}; expected (identifiers, {config.puzzle_width})")
        elif shape != shapes[name]:
            problems.append(f"{name}: shape {shape}; expected {shapes[name]}")
        if not np.all(np.isfinite(found[name])):
            problems.append(f"{name}: has values that are not finite")
    return problems


def params_from_published(config: BlocksConfig, tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the tree of trained parameters, float32."""
    tree: dict[str, Any] = {}
    for name, path, transposed in parameter_names(config):
        if name not in tensors:
            raise CheckpointError(f"{name}: missing parameter (got {', '.join(sorted(tensors)) or 'none'}).")
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
        value = np.asarray(tensors[name], np.float32)
        node[path[-1]] = np.ascontiguousarray(value.T if transposed else value)
    return tree


def params_to_published(config: BlocksConfig, params: Mapping[str, Any]) -> dict[str, np.ndarray]:
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
    config: BlocksConfig, spec: InputSpec, tensors: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray], np.ndarray | None]:
    """Return parameters, fixed latents and the (padded) puzzle table of a published state."""
    tensors = without_prefix(tensors)
    expected = {name for name, _, _ in parameter_names(config)} | set(fixed_names(config))
    if config.puzzle_width > 0:
        expected.add(TABLE)
    if set(tensors) != expected:
        missing, unknown = sorted(expected - set(tensors)), sorted(set(tensors) - expected)
        raise CheckpointError(
            f"published parameters do not fit the network (missing: {missing}; unknown: {unknown})."
        )
    params = params_from_published(config, tensors)
    fixed = {ours: np.asarray(tensors[name], np.float32) for name, ours in fixed_names(config).items()}
    if config.puzzle_width == 0:
        return params, fixed, None
    rows = np.asarray(tensors[TABLE], np.float32)
    if rows.shape != (spec.num_identifiers, config.puzzle_width):
        raise CheckpointError(
            f"{TABLE}: wrong shape (got {rows.shape}; expected {(spec.num_identifiers, config.puzzle_width)})."
        )
    table = np.zeros((table_rows(spec.num_identifiers), rows.shape[1]), np.float32)
    table[: len(rows)] = rows
    return params, fixed, table


def weights_to_published(
    config: BlocksConfig,
    spec: InputSpec,
    params: Mapping[str, Any],
    fixed: Mapping[str, Any],
    puzzle_table: Any,
) -> dict[str, np.ndarray]:
    """Inverse of `weights_from_published`; the result has no prefix, and no padding of the table."""
    tensors = params_to_published(config, params)
    tensors |= {name: np.asarray(fixed[ours]) for name, ours in fixed_names(config).items()}
    if puzzle_table is not None:
        tensors[TABLE] = np.asarray(puzzle_table)[: spec.num_identifiers]
    return tensors
