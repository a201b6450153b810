"""A training step of the published code, compiled with torch, timed on request; `bench_step.py --peer` starts it.

    PYTHON benchmarks/peer_step.py DIR --mixer mlp_t --hidden 512 --batch 16

PYTHON has torch, numpy, pydantic and einops; DIR is a checkout of SamsungSAILMontreal/TinyRecursiveModels. Each line on
stdin asks for one step; the answer is a line with its seconds. The first answer contains the compilation.

The step is what the published `train_batch` does on one process: forward, backward, the optimizer of the network, the
SignSGD of the puzzle table, EMA. AdamATan2 has a kernel for CUDA only, so torch's fused AdamW stands in for it; that
is below 1% of the arithmetic.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch


def main() -> None:
    """Answer each line of stdin with the seconds of one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--mixer", choices=("mlp_t", "attention"), default="mlp_t")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--batch", type=int, default=16)
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.checkout)
    from models.ema import EMAHelper
    from models.losses import ACTLossHead
    from models.recursive_reasoning.trm import TinyRecursiveReasoningModel_ACTV1
    from models.sparse_embedding import CastedSparseEmbeddingSignSGD_Distributed

    torch.manual_seed(0)
    batch = arguments.batch
    model = TinyRecursiveReasoningModel_ACTV1(
        {
            "batch_size": batch,
            "seq_len": 81,
            "vocab_size": 11,
            "num_puzzle_identifiers": 1,
            "puzzle_emb_ndim": arguments.hidden,
            "puzzle_emb_len": 16,
            "H_cycles": 3,
            "L_cycles": 6,
            "H_layers": 0,
            "L_layers": 2,
            "hidden_size": arguments.hidden,
            "num_heads": 8,
            "expansion": 4,
            "pos_encodings": "none" if arguments.mixer == "mlp_t" else "rope",
            "mlp_t": arguments.mixer == "mlp_t",
            "halt_max_steps": 16,
            "halt_exploration_prob": 0.1,
            "forward_dtype": "float32",
        }
    )
    head = ACTLossHead(model, "stablemax_cross_entropy")
    head.train()
    optimizers = [
        CastedSparseEmbeddingSignSGD_Distributed(list(model.puzzle_emb.buffers()), world_size=1, lr=1e-4),
        torch.optim.AdamW(head.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=1.0, fused=True),
    ]
    ema = EMAHelper(mu=0.999)
    ema.register(head)
    compiled = torch.compile(head)
    rng = np.random.default_rng(0)
    rows = {
        "inputs": torch.from_numpy(rng.integers(1, 11, (batch, 81)).astype(np.int32)),
        "labels": torch.from_numpy(rng.integers(2, 11, (batch, 81)).astype(np.int32)),
        "puzzle_identifiers": torch.zeros(batch, dtype=torch.int32),
    }
    carry = head.initial_carry(rows)
    for _ in sys.stdin:
        start = time.perf_counter()
        carry, loss, _, _, _ = compiled(carry=carry, batch=rows, return_keys=[])
        (loss / batch).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        ema.update(head)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
