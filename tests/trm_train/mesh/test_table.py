"""A table sharded by rows over eight devices is read and updated like a table on one device."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import jax, jax.numpy as jnp, numpy as np
from functools import partial
from jax.sharding import NamedSharding
from trm_train.mesh import batch_sharding, make_mesh
from trm_train.mesh import look_up, rows_spec, update_rows
from trm_train.optim import sign_sgd

rng = np.random.default_rng(0)
update = partial(sign_sgd, learning_rate=jnp.float32(0.1), weight_decay=0.5)
seen = set()
for model_parallel in (1, 2, 4, 8):
    mesh = make_mesh(model_parallel)
    for rows in (8, 128, 12, 6, 3):
        for trial in range(3):
            table = rng.normal(size=(rows, 5)).astype(np.float32)
            identifiers = rng.integers(0, 2 if trial == 0 else rows, 16).astype(np.int32)
            identifiers[-1] = rows - 1
            grads = rng.normal(size=(16, 5)).astype(np.float32)
            grads[0] = 0
            spec = rows_spec(mesh, rows)
            seen.add(str(spec))
            there = jax.device_put(table, NamedSharding(mesh, spec))
            slots = [jax.device_put(x, batch_sharding(mesh)) for x in (grads, identifiers)]
            found = jax.jit(partial(look_up, mesh=mesh))(there, slots[1])
            assert found.sharding.is_equivalent_to(batch_sharding(mesh), 2), found.sharding
            assert np.array_equal(found, table[identifiers]), (model_parallel, rows)
            changed = jax.jit(partial(update_rows, update, mesh=mesh))(there, *slots)
            assert changed.sharding.is_equivalent_to(there.sharding, 2), changed.sharding
            wanted = sign_sgd(*map(jnp.asarray, (table, grads, identifiers)), jnp.float32(0.1), 0.5)
            assert np.allclose(changed, wanted, atol=1e-6), (model_parallel, rows)
            untouched = np.setdiff1d(np.arange(rows), identifiers)
            assert np.array_equal(np.asarray(changed)[untouched], table[untouched])
assert len(seen) == 3, seen
assert look_up(None, slots[1], mesh) is None
"""


def test_rows_over_devices_are_those_of_one_device() -> None:
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_NUMPY_RANK_PROMOTION": "raise"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
