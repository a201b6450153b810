"""Trainer of the Tiny Recursive Model: configuration, model, optimizers, training step and loop.

Letters for dimensions, everywhere in this package:

    B  batch: slots of the global batch (a slot holds one example over several supervision steps)
    S  cells of a puzzle
    P  puzzle positions, in front of the cells
    L  all positions, L = P + S
    D  width of the network
    H  attention heads
    V  vocabulary

Other letters are spelled out where they occur: `I` is the inner width of a SwiGLU, `N` the width of a
puzzle-embedding row, `R` the rows of the puzzle-embedding table. A suffix in a body (`x_LxBxD`) marks where
the layout differs from `B L D`.
"""
