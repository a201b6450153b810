-- The dataset catalog: the same tables as Parquet beside each dataset's shards (<root>/datasets/<name>/catalog/)
-- and in <root>/catalog.duckdb, which is rebuilt from them at any time. Types here are the only definition.

CREATE TABLE datasets (
    dataset             VARCHAR NOT NULL PRIMARY KEY,
    kind                VARCHAR NOT NULL,
    digest              VARCHAR NOT NULL,
    spec_digest         VARCHAR NOT NULL,
    spec                JSON NOT NULL,
    sequence_length     INTEGER NOT NULL,
    vocabulary_size     INTEGER NOT NULL,
    num_identifiers     INTEGER NOT NULL,
    built_at            TIMESTAMPTZ NOT NULL,
    builder_version     INTEGER NOT NULL
);
COMMENT ON TABLE datasets IS 'One row per dataset.';
COMMENT ON COLUMN datasets.dataset IS 'Name: the folder under <root>/datasets.';
COMMENT ON COLUMN datasets.kind IS 'Kind of puzzle: sudoku, maze, arc, table, or a kind of another package.';
COMMENT ON COLUMN datasets.digest IS 'Content digest: sha256 over the decoded rows in order, hexadecimal.';
COMMENT ON COLUMN datasets.spec_digest IS 'sha256 over the specification and the builder version, hexadecimal.';
COMMENT ON COLUMN datasets.spec IS 'The specification that determines the content.';
COMMENT ON COLUMN datasets.sequence_length IS 'Cells in a row, S (cells).';
COMMENT ON COLUMN datasets.vocabulary_size IS 'Number of tokens, PAD included (tokens).';
COMMENT ON COLUMN datasets.num_identifiers IS 'Rows of the puzzle-embedding table, the blank one included (rows).';
COMMENT ON COLUMN datasets.built_at IS 'When the manifest was written (UTC).';
COMMENT ON COLUMN datasets.builder_version IS 'Version of the builder; another version may give other rows.';

CREATE TABLE sources (
    dataset             VARCHAR NOT NULL,
    file                VARCHAR NOT NULL,
    sha256              VARCHAR NOT NULL,
    rows                BIGINT NOT NULL,
    licence             VARCHAR
);
COMMENT ON TABLE sources IS 'One row per file that puzzles were read from; none for generated puzzles.';
COMMENT ON COLUMN sources.dataset IS 'Dataset name.';
COMMENT ON COLUMN sources.file IS 'The file''s own name, or repository/file@commit.';
COMMENT ON COLUMN sources.sha256 IS 'sha256 of the file as stored, hexadecimal.';
COMMENT ON COLUMN sources.rows IS 'Rows of the file, used or not (rows).';
COMMENT ON COLUMN sources.licence IS 'Licence as the publisher states it; NULL if unknown.';

CREATE TABLE splits (
    dataset             VARCHAR NOT NULL,
    split               VARCHAR NOT NULL,
    num_groups          BIGINT NOT NULL,
    num_puzzles         BIGINT NOT NULL,
    num_examples        BIGINT NOT NULL,
    digest              VARCHAR NOT NULL
);
COMMENT ON TABLE splits IS 'One row per split of a dataset.';
COMMENT ON COLUMN splits.dataset IS 'Dataset name.';
COMMENT ON COLUMN splits.split IS 'train, validation or test.';
COMMENT ON COLUMN splits.num_groups IS 'Base puzzles (groups).';
COMMENT ON COLUMN splits.num_puzzles IS 'Augmentations of all groups, the originals included (puzzles).';
COMMENT ON COLUMN splits.num_examples IS 'Rows (examples).';
COMMENT ON COLUMN splits.digest IS 'sha256 over the split''s decoded rows in order, hexadecimal.';

CREATE TABLE shards (
    dataset             VARCHAR NOT NULL,
    split               VARCHAR NOT NULL,
    shard               INTEGER NOT NULL,
    path                VARCHAR NOT NULL,
    num_records         BIGINT NOT NULL,
    num_examples        BIGINT NOT NULL,
    size_bytes          BIGINT NOT NULL,
    sha256              VARCHAR NOT NULL
);
COMMENT ON TABLE shards IS 'One row per ArrayRecord shard.';
COMMENT ON COLUMN shards.dataset IS 'Dataset name.';
COMMENT ON COLUMN shards.split IS 'train, validation or test.';
COMMENT ON COLUMN shards.shard IS 'Position of the shard in its split, from 0.';
COMMENT ON COLUMN shards.path IS 'File name in the dataset''s folder.';
COMMENT ON COLUMN shards.num_records IS 'ArrayRecord records: blocks of up to 256 examples (records).';
COMMENT ON COLUMN shards.num_examples IS 'Rows (examples).';
COMMENT ON COLUMN shards.size_bytes IS 'Size of the file (bytes).';
COMMENT ON COLUMN shards.sha256 IS 'sha256 of the file, hexadecimal.';

CREATE TABLE puzzles (
    dataset             VARCHAR NOT NULL,
    split               VARCHAR NOT NULL,
    group_index         INTEGER NOT NULL,
    source_file         VARCHAR NOT NULL,
    source_row          BIGINT NOT NULL,
    puzzle_key          BIGINT,
    task                VARCHAR,
    subset              VARCHAR,
    rating              FLOAT,
    rating_source       VARCHAR,
    clues               INTEGER,
    path_length         INTEGER,
    walls               INTEGER,
    log10_shortest_paths FLOAT,
    forced_share        FLOAT,
    grid_sizes          VARCHAR,
    scored              BOOLEAN,
    num_augmentations   INTEGER NOT NULL,
    num_examples        INTEGER,
    canonical_hash      VARCHAR NOT NULL,
    first_identifier    INTEGER NOT NULL
);
COMMENT ON TABLE puzzles IS 'One row per base puzzle.';
COMMENT ON COLUMN puzzles.dataset IS 'Dataset name.';
COMMENT ON COLUMN puzzles.split IS 'train, validation or test.';
COMMENT ON COLUMN puzzles.group_index IS 'Position of the puzzle''s group in its split, from 0.';
COMMENT ON COLUMN puzzles.source_file IS 'File it was read from, or generated.';
COMMENT ON COLUMN puzzles.source_row IS 'Line in the file, from 1; for generated puzzles the index in the split''s stream, from 0.';
COMMENT ON COLUMN puzzles.puzzle_key IS 'Number of the puzzle in keyed draws.';
COMMENT ON COLUMN puzzles.task IS 'ARC: name of the task; NULL for other kinds.';
COMMENT ON COLUMN puzzles.subset IS 'ARC: subset the task comes from; NULL for other kinds.';
COMMENT ON COLUMN puzzles.rating IS 'Sudoku: difficulty (guesses of a solver up to the first solution), see rating_source; maze: rating of the source, else NULL.';
COMMENT ON COLUMN puzzles.path_length IS 'Maze: steps from S to G (steps).';
COMMENT ON COLUMN puzzles.walls IS 'Maze: walls (cells).';
COMMENT ON COLUMN puzzles.log10_shortest_paths IS 'Maze: decimal logarithm of the number of shortest paths from S to G; 0 is one path.';
COMMENT ON COLUMN puzzles.forced_share IS 'Maze: share of the cells of a shortest path, between S and G, that every shortest path uses (0 to 1).';
COMMENT ON COLUMN puzzles.grid_sizes IS 'ARC: rows x columns of input > output of each example, by spaces.';
COMMENT ON COLUMN puzzles.scored IS 'ARC: whether the right outputs are known; NULL for other kinds.';
COMMENT ON COLUMN puzzles.num_examples IS 'Examples of every augmentation of the group (examples).';
COMMENT ON COLUMN puzzles.rating_source IS 'file: as the source states it; solver: computed here (docs/datasets.md).';
COMMENT ON COLUMN puzzles.clues IS 'Sudoku: given cells (cells).';
COMMENT ON COLUMN puzzles.num_augmentations IS 'Augmentations stored for the group, the original included (puzzles).';
COMMENT ON COLUMN puzzles.canonical_hash IS 'Equal exactly for puzzles that are equivalent under the symmetries of the kind, hexadecimal.';
COMMENT ON COLUMN puzzles.first_identifier IS 'Puzzle identifier of the original; 0 is the shared blank one.';

CREATE TABLE augmentations (
    dataset             VARCHAR NOT NULL,
    split               VARCHAR NOT NULL,
    group_index         INTEGER NOT NULL,
    augmentation        INTEGER NOT NULL,
    k                   INTEGER NOT NULL,
    element             BIGINT NOT NULL,
    identifier          INTEGER,
    dihedral            TINYINT,
    colours             VARCHAR
);
COMMENT ON TABLE augmentations IS 'One row per augmentation: which symmetry makes it from its original. Virtual datasets without identifiers list only groups in which k is not the position.';
COMMENT ON COLUMN augmentations.dataset IS 'Dataset name.';
COMMENT ON COLUMN augmentations.split IS 'train, validation or test.';
COMMENT ON COLUMN augmentations.group_index IS 'Group within its split, from 0.';
COMMENT ON COLUMN augmentations.augmentation IS 'Position within the group; 0 is the original.';
COMMENT ON COLUMN augmentations.k IS 'Argument of the keyed permutation of the symmetry group; equals augmentation unless the puzzle is symmetric itself.';
COMMENT ON COLUMN augmentations.element IS 'Index of the symmetry, as from_index of trm_data.kinds.sudoku.symmetry.SudokuSymmetry or trm_data.kinds.arc.symmetry.ArcSymmetry reads it; for mazes the dihedral id.';
COMMENT ON COLUMN augmentations.identifier IS 'Row of the puzzle-embedding table; 0 is the shared blank one.';
COMMENT ON COLUMN augmentations.dihedral IS 'ARC, maze: symmetry of the grid, 0 identity, 1 to 3 rotations by 90, 180, 270 degrees counter-clockwise, 4 left-right flip, 5 up-down flip, 6 transpose, 7 left-right flip of the rotation by 90.';
COMMENT ON COLUMN augmentations.colours IS 'ARC: ten digits, the new colour of each old one; applied before the dihedral.';

CREATE TABLE examples (
    dataset             VARCHAR NOT NULL,
    split               VARCHAR NOT NULL,
    group_index         INTEGER NOT NULL,
    augmentation        INTEGER NOT NULL,
    example             INTEGER NOT NULL,
    row_offset          UTINYINT NOT NULL,
    column_offset       UTINYINT NOT NULL
);
COMMENT ON TABLE examples IS 'One row per stored example of kinds that translate grids (ARC): how far.';
COMMENT ON COLUMN examples.dataset IS 'Dataset name.';
COMMENT ON COLUMN examples.split IS 'train, validation or test.';
COMMENT ON COLUMN examples.group_index IS 'Group within its split, from 0.';
COMMENT ON COLUMN examples.augmentation IS 'Position within the group; 0 is the original.';
COMMENT ON COLUMN examples.example IS 'Position within the augmentation, from 0.';
COMMENT ON COLUMN examples.row_offset IS 'Rows that input and output were moved down (cells).';
COMMENT ON COLUMN examples.column_offset IS 'Columns that input and output were moved right (cells).';

CREATE TABLE identifiers (
    dataset             VARCHAR NOT NULL,
    identifier          INTEGER NOT NULL,
    name                VARCHAR NOT NULL
);
COMMENT ON TABLE identifiers IS 'Names of puzzle identifiers of imported datasets; for ARC datasets built here, see augmentations.';
COMMENT ON COLUMN identifiers.dataset IS 'Dataset name.';
COMMENT ON COLUMN identifiers.identifier IS 'Row of the puzzle-embedding table.';
COMMENT ON COLUMN identifiers.name IS 'Name as imported, such as task|||t<dihedral>|||<colours>.';

CREATE TABLE rejects (
    dataset             VARCHAR NOT NULL,
    file                VARCHAR NOT NULL,
    line                BIGINT NOT NULL,
    reason              VARCHAR NOT NULL
);
COMMENT ON TABLE rejects IS 'One row per source row that was left out (--on-bad-row skip).';
COMMENT ON COLUMN rejects.dataset IS 'Dataset name.';
COMMENT ON COLUMN rejects.file IS 'The file''s own name.';
COMMENT ON COLUMN rejects.line IS 'Line in the file, from 1.';
COMMENT ON COLUMN rejects.reason IS 'What is wrong with the row.';
