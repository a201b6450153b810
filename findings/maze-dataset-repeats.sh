#!/bin/sh
# maze-dataset repeats mazes within a dataset, and its path is one of several shortest ones where a maze has loops.
#
# Versions:  maze-dataset 1.4.2 with muutils 0.8.11 (later versions of muutils lack a name that it imports).
# Behaviour: nothing removes repeated mazes: 52 of 500 3x3 mazes occur before. With `gen_dfs_percolation` (p 0.1) 10 of
#            50 8x8 mazes have several shortest paths; the dataset holds one of them.
# Guess:     items of a dataset differ, and the path is the only right answer.
# Effect:    a split into training and test shares mazes, and exact comparison with the path scores right answers as wrong.
# Seen:      repeated 52 of 500, several shortest paths: gen_dfs 0 of 50, gen_dfs_percolation 10 of 50
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check maze-dataset==1.4.2 muutils==0.8.11
"$tmp/venv/bin/python" - <<'EOF'
import sys
from maze_dataset import MazeDataset, MazeDatasetConfig
from maze_dataset.generation import LatticeMazeGenerators


def make(**options):
    config = MazeDatasetConfig(name="example", seed=0, **options)
    return MazeDataset.from_config(config, load_local=False, save_local=False, do_download=False, verbose=False)


def shortest_paths(maze):
    down, right = maze.connection_list
    start, goal = tuple(maze.solution[0]), tuple(maze.solution[-1])
    distance, ways, queue = {start: 0}, {start: 1}, [start]
    for row, column in queue:
        for other, open_ in (
            ((row + 1, column), down[row, column]),
            ((row - 1, column), row > 0 and down[row - 1, column]),
            ((row, column + 1), right[row, column]),
            ((row, column - 1), column > 0 and right[row, column - 1]),
        ):
            if open_ and other not in distance:
                distance[other], ways[other] = distance[row, column] + 1, 0
                queue.append(other)
            if open_ and distance[other] == distance[row, column] + 1:
                ways[other] += ways[row, column]
    return ways[goal]


small = make(grid_n=3, n_mazes=500)
repeated = len(small) - len({(maze.connection_list.tobytes(), maze.solution.tobytes()) for maze in small})
several = [
    sum(shortest_paths(maze) > 1 for maze in make(grid_n=8, n_mazes=50, maze_ctor=generator, maze_ctor_kwargs=options))
    for generator, options in (
        (LatticeMazeGenerators.gen_dfs, {}),
        (LatticeMazeGenerators.gen_dfs_percolation, {"p": 0.1}),
    )
]
print(f"repeated {repeated} of 500, several shortest paths: gen_dfs {several[0]} of 50, "
      f"gen_dfs_percolation {several[1]} of 50")
sys.exit((repeated, *several) != (52, 0, 10))
EOF
