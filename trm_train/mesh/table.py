"""Puzzle-embedding table, sharded by rows: each device reads and updates only its own rows.

The communication grows with the batch. All devices receive the identifiers of all slots (int32 [B]). Each slot receives
its row, summed over what the devices hold of it. All devices receive the gradients of all slots ([B, N]), to update
their own rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

BY_SLOT = P("data")
"""Spec of arrays with one entry per slot."""

UpdateRows = Callable[[Array, Array, Array], Array]
"""Returns the updated table [R, N] from the table, gradients of slots [B, N] and identifiers [B]; R marks no row."""


def rows_spec(mesh: Mesh, rows: int) -> P:
    """Return the spec of the table: rows split over all devices if divisible, else over `model`, else replicated."""
    axes = _axes(mesh, rows)
    return P(axes) if axes else P()


def look_up(
    table: Float[Array, "R N"] | None, identifiers: Int[Array, " B"], mesh: Mesh | None
) -> Float[Array, "B N"] | None:
    """Return the row of every slot; None without a table.

    Args:
        table: Table on the mesh, sharded as `rows_spec` says.
        identifiers: Identifiers of the slots, along `data`.
        mesh: Mesh of the devices; None for one device.
    """
    axes = () if table is None or mesh is None else _axes(mesh, table.shape[0])
    if table is None or mesh is None or not axes:
        return None if table is None else table[identifiers]

    def mine(table: Array, identifiers: Array) -> Array:
        wanted = _local(lax.all_gather(identifiers, "data", tiled=True), table.shape[0], axes)
        rows = table.at[wanted].get(mode="fill", fill_value=0.0)
        if "data" in axes:
            rows = lax.psum_scatter(rows, "data", scatter_dimension=0, tiled=True)
        else:
            slots = identifiers.shape[0]
            rows = lax.dynamic_slice_in_dim(rows, lax.axis_index("data") * slots, slots)
        return lax.psum(rows, "model") if mesh.shape["model"] > 1 else rows

    specs = (rows_spec(mesh, table.shape[0]), BY_SLOT)
    # With `data` only, the result is the same along `model`.
    return jax.shard_map(mine, mesh=mesh, in_specs=specs, out_specs=BY_SLOT, check_vma=False)(
        table, identifiers
    )


def update_rows(
    update: UpdateRows,
    table: Float[Array, "R N"],
    slot_grads: Float[Array, "B N"],
    identifiers: Int[Array, " B"],
    mesh: Mesh | None,
) -> Float[Array, "R N"]:
    """Return the table after every device has updated its rows.

    Args:
        update: Updates the rows of some slots.
        table: As in `look_up`.
        slot_grads: Gradient of the row that each slot looked up, along `data`.
        identifiers: As in `look_up`.
        mesh: As in `look_up`.
    """
    axes = () if mesh is None else _axes(mesh, table.shape[0])
    if mesh is None or not axes:
        return update(table, slot_grads, identifiers)

    def mine(table: Array, slot_grads: Array, identifiers: Array) -> Array:
        grads, wanted = (lax.all_gather(x, "data", tiled=True) for x in (slot_grads, identifiers))
        return update(table, grads, _local(wanted, table.shape[0], axes))

    placed = rows_spec(mesh, table.shape[0])
    specs = (placed, BY_SLOT, BY_SLOT)
    # Devices with the same rows update them identically.
    changed = jax.shard_map(mine, mesh=mesh, in_specs=specs, out_specs=placed, check_vma=False)
    return changed(table, slot_grads, identifiers)


def _axes(mesh: Mesh, rows: int) -> tuple[str, ...]:
    """Return the mesh axes that split the rows; empty if each device has all rows."""
    for axes in (("data", "model"), ("model",)):
        devices = math.prod(mesh.shape[axis] for axis in axes)
        if devices > 1 and rows % devices == 0:
            return axes
    return ()


def _local(identifiers: Array, rows: int, axes: tuple[str, ...]) -> Array:
    """Return positions among this device's rows; for rows of other devices, the number of rows."""
    place = identifiers - lax.axis_index(axes) * rows
    return jnp.where((place >= 0) & (place < rows), place, rows)
