"""A TPU created by gcloud: problems are reported with a remedy; an existing VM is used or left alone.

A launch on a TPU, from start to end: created, preempted, recreated, detached, found again, stopped.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.gcs.server import GcsServer
from tests.multiprocess.processes import TRAIN
from tests.trm_train.launch.conftest import Cloud
from trm_data.errors import Exit
from trm_data.storage.root import resolve_root
from trm_train.cli import main
from trm_train.commands.run import read_options
from trm_train.errors import LaunchError
from trm_train.launch.flow import RUNTIMES, Tpu
from trm_train.launch.scripts import Source
from trm_train.runs.record import run_folder
from trm_train.runs.status import Status, status_bytes

RUN = "quickstart-00000000-s0"
QUOTA = "Quota limit 'TPUV4PodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0 in zone us-central2-b."
FULL = 'There is no more capacity in the zone "us-central2-b"; you can try in another zone'


def tpu(messages: list[str] | None = None, **fields: object) -> Tpu:
    say = (lambda _: None) if messages is None else messages.append
    given = {"name": "trm", "accelerator": "v4-8", "zone": "us-central2-b", "run": RUN, "words": (), **fields}
    return Tpu(source=Source("r", "0" * 40), say=say, **given)  # type: ignore[arg-type]


def refusal(cloud: Cloud, **fields: object) -> str:
    with pytest.raises(LaunchError) as caught:
        tpu(**fields).ensure()
    return str(caught.value)


def test_a_machine_without_gcloud_is_told_so(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cloud.folder / "host_bin"))
    with pytest.raises(LaunchError, match="gcloud is not on the PATH"):
        tpu().ensure()


def test_a_refusal_is_one_line_with_what_gcloud_printed(cloud: Cloud) -> None:
    cloud.set("refuse", QUOTA)
    line = refusal(cloud)
    assert line == f"v4-8 trm could not be created: ERROR: (gcloud.compute.tpus) {QUOTA}"


def test_a_tpu_is_requested_again_until_one_is_free(cloud: Cloud) -> None:
    cloud.set("refuse", FULL)
    said: list[str] = []
    tpu(said).ensure()
    assert any("no v4-8 is free; trying again" in line for line in said)
    assert verbs(cloud) == ["tpu-vm create"] * 2


def test_a_tpu_of_another_kind_is_neither_used_nor_deleted(cloud: Cloud) -> None:
    tpu().ensure()
    assert refusal(cloud, accelerator="v4-16").startswith("trm exists as v4-8 (expected v4-16)")
    assert not any(" delete " in call for call in cloud.calls())


def put_state(cloud: Cloud, name: str, **fields: object) -> None:
    path = cloud.folder / "state.json"
    state = json.loads(path.read_text())
    state["vms"][name] |= fields
    path.write_text(json.dumps(state))


def test_a_tpu_that_somebody_stopped_is_left_alone(cloud: Cloud) -> None:
    tpu().ensure()
    put_state(cloud, "trm", state="STOPPED")
    assert "is STOPPED" in refusal(cloud)
    assert not any(" delete " in call for call in cloud.calls())


@pytest.mark.parametrize("state", ["PREEMPTED", "TERMINATED"])
def test_a_tpu_that_was_taken_away_is_deleted_and_created_anew(cloud: Cloud, state: str) -> None:
    said: list[str] = []
    tpu().ensure()
    put_state(cloud, "trm", state=state)
    assert tpu().state() == state
    tpu(said).ensure()
    assert f"v4-8 trm is {state}: deleting and creating it again" in said
    assert tpu().state() == "READY"


def test_the_queue_is_asked_for_the_vm_and_its_runtime_and_deleted_with_it(cloud: Cloud) -> None:
    queued = tpu(queued=True, spot=True, create=("--network", "n"))
    queued.ensure()
    (create,) = (call for call in cloud.calls() if " create " in call)
    assert create == (
        "compute tpus queued-resources create trm --zone=us-central2-b --node-id trm --accelerator-type v4-8 "
        "--runtime-version tpu-ubuntu2204-base --spot --network n"
    )
    queued.release()
    assert (
        cloud.calls()[-1] == "compute tpus queued-resources delete trm --zone=us-central2-b --force --quiet"
    )


def test_every_host_answers(cloud: Cloud) -> None:
    there = tpu(accelerator="v4-16")
    there.ensure()
    assert there.count == 2
    assert [host.word for host in there.look()] == ["absent", "absent"]
    with pytest.raises(LaunchError, match="0 of 2 hosts installed"):
        there.everywhere("installed", "echo nothing")
    cloud.set("silent", "yes")
    assert there.look() == []


def test_every_kind_has_a_runtime() -> None:
    for kind, runtime in RUNTIMES.items():
        assert runtime in tpu(accelerator=f"{kind}-8").creation()
    with pytest.raises(LaunchError, match="expected KIND-SIZE"):
        tpu(accelerator="v9-8")


TPU = ("--accelerator", "v4-8", "--zone", "us-central2-b")
POD = ("--accelerator", "v4-16", "--zone", "us-central2-b")
STEPS = """
steps="$FAKE_CLOUD/steps"; touch "$steps"
echo "$FAKE_HOST resumes from step $(wc -l < "$steps")"
trap 'echo "saves a checkpoint"; exit 143' TERM
while [ $(wc -l < "$steps") -lt 20 ]; do
  echo step >> "$steps"; sleep 0.1
  while [ -e "$FAKE_CLOUD/preempting" ] && [ $(wc -l < "$steps") -ge 10 ]; do sleep 0.1; done
done
echo "trained with $*"
"""
"""A program of 20 steps, which are kept when the machine is lost."""


def verbs(cloud: Cloud) -> list[str]:
    """Return the changes made to machines, in order."""
    found = (re.match(r"compute tpus (\S+ (?:create|delete))", call) for call in cloud.calls())
    return [match[1] for match in found if match is not None]


def starts(cloud: Cloud) -> int:
    return sum("setsid" in call for call in cloud.calls())


def until(happened: Callable[[], bool]) -> None:
    """Wait for a condition, with a timeout."""
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_is_trained_on_a_tpu_that_is_created_for_it(cloud: Cloud) -> None:
    done = cloud.launch(cloud.commit(STEPS), *TPU, "--delete")
    assert done.returncode == 0, done.stderr
    assert verbs(cloud) == ["tpu-vm create", "tpu-vm delete"]
    assert "resumes from step 0\n" in done.stdout
    assert (
        f"trained with run quickstart --data.dataset small --root {cloud.root}\n" in done.stdout
    )  # one host
    assert cloud.calls("synced") == ["sync --quiet --locked --no-default-groups --extra tpu --extra gcs"]


def test_after_a_pre_emption_the_tpu_is_created_anew_and_the_run_goes_on(cloud: Cloud) -> None:
    cloud.set("preempt", "logged\n")
    done = cloud.launch(cloud.commit(STEPS), *TPU, "--spot", "--json")
    assert done.returncode == 0, done.stderr
    assert verbs(cloud) == ["tpu-vm create", "tpu-vm delete", "tpu-vm create"]
    assert all("--spot" in call for call in cloud.calls() if " create " in call)
    (outcome,) = json.loads(done.stdout)
    assert (outcome["state"], outcome["restarts"]) == ("done", 1)
    resumed = re.findall(r"resumes from step (\d+)", done.stderr)
    assert len(resumed) == 2
    assert 0 < int(resumed[1]) < 20
    assert len(cloud.calls("steps")) == 20


def test_a_queued_tpu_is_waited_for_and_queued_again_when_it_was_taken_away(cloud: Cloud) -> None:
    cloud.set("preempt", "logged\n")
    done = cloud.launch(cloud.commit(STEPS), *POD, "--queued", "--spot")
    assert done.returncode == 0, done.stderr
    assert verbs(cloud) == [
        "queued-resources create",
        "queued-resources delete",
        "queued-resources create",
    ]
    assert "is WAITING_FOR_RESOURCES; waiting" in done.stderr
    assert "is SUSPENDED" in done.stderr
    assert "--distributed" in done.stdout


def test_pre_emptions_are_survived_as_often_as_was_asked_for(cloud: Cloud) -> None:
    cloud.set("preempt", "0.1\n0.1\n0.1\n")
    done = cloud.launch(cloud.commit("sleep 60"), *TPU, "--restarts", "2")
    assert done.returncode == Exit.STALLED
    assert starts(cloud) == 3
    assert "--restarts 2" in done.stderr
    assert "costs: gcloud compute tpus tpu-vm delete trm-v4-8" in done.stderr


@pytest.mark.parametrize("code", [2, 3])
def test_a_run_that_fails_ends_the_launch_with_its_code_and_the_hosts_that_have_it(
    cloud: Cloud, code: int
) -> None:
    program = f'echo "trm-train: loss is not finite" >&2; case $FAKE_HOST in *w-1) exit {code};; esac; exit 5'
    done = cloud.launch(cloud.commit(program), *POD)
    assert done.returncode == code
    assert f"exit code {code} on t1v-trm-v4-16-1-w-1" in done.stderr
    assert "trm-train: loss is not finite" in done.stdout
    assert starts(cloud) == 1


def test_a_run_whose_process_died_is_started_again_on_the_same_machines(cloud: Cloud) -> None:
    program = 'mkdir "$FAKE_CLOUD/once" && kill -9 $$; exit 0'
    done = cloud.launch(cloud.commit(program), *TPU)
    assert done.returncode == 0, done.stderr
    assert (starts(cloud), verbs(cloud)) == (2, ["tpu-vm create"])


def test_a_launch_that_was_killed_is_watched_again_and_nothing_starts_twice(cloud: Cloud) -> None:
    many = STEPS.replace("-lt 20", "-lt 100")  # the second launch starts while they run
    commit = cloud.commit(f'echo start >> "$FAKE_CLOUD/starts"; {many}')
    words = cloud.words(commit, *TPU)
    first = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", TRAIN, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    until(lambda: len(cloud.calls("steps")) > 1)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    done = cloud.launch(commit, *TPU)
    assert done.returncode == 0, done.stderr
    assert "is running; watching it" in done.stderr
    assert (len(cloud.calls("starts")), starts(cloud), verbs(cloud)) == (1, 1, ["tpu-vm create"])
    assert len(cloud.calls("steps")) == 100


def test_ctrl_c_leaves_the_run_alone_and_says_how_it_is_watched_again(cloud: Cloud) -> None:
    words = cloud.words(cloud.commit(STEPS), *TPU)
    launched = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", TRAIN, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(cloud.calls("steps")) > 1)
    launched.send_signal(signal.SIGINT)
    _, said = launched.communicate(timeout=600)
    assert launched.returncode == Exit.INTERRUPTED
    assert "the same command watches it, --stop ends it" in said
    until(lambda: len(cloud.calls("steps")) == 20)


@contextmanager
def watching(cloud: Cloud, commit: str) -> Generator[subprocess.Popen[str]]:
    """A launch in another process, which has started its run."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", TRAIN, *cloud.words(commit, *TPU)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as launched:
        until(lambda: len(cloud.calls("steps")) > 1)
        yield launched


def test_stop_has_a_run_without_a_watcher_save_a_checkpoint(cloud: Cloud) -> None:
    commit = cloud.commit(STEPS.replace("lt 20", "lt 2000"))
    with watching(cloud, commit) as launched:
        launched.kill()
    done = cloud.launch(commit, *TPU, "--stop", "--delete", "--json")
    assert done.returncode == 0, done.stderr
    assert [outcome["state"] for outcome in json.loads(done.stdout)] == ["stopped"]
    assert verbs(cloud) == ["tpu-vm create", "tpu-vm delete"]
    count = len(cloud.calls("steps"))
    time.sleep(0.4)
    assert len(cloud.calls("steps")) == count < 2000


def test_who_watches_a_run_that_somebody_stops_does_not_start_it_again(cloud: Cloud) -> None:
    commit = cloud.commit(STEPS.replace("lt 20", "lt 2000"))
    with watching(cloud, commit) as launched:
        assert cloud.launch(commit, *TPU, "--stop").returncode == 0
        printed, said = launched.communicate(timeout=600)
    assert launched.returncode == Exit.TERMINATED
    assert "saves a checkpoint" in printed
    assert "stopped (exit code 143" in said
    assert starts(cloud) == 1


def test_a_tpu_that_trains_another_run_is_in_use(cloud: Cloud) -> None:
    commit = cloud.commit(STEPS.replace("lt 20", "lt 2000"))
    with watching(cloud, commit) as launched:
        launched.kill()
    done = cloud.launch(commit, *TPU, "--seed", "1", "--delete")
    assert done.returncode == Exit.ERROR
    assert re.search(r"is in use: the run quickstart-\w+-s0 on t1v-trm-v4-8-1-w-0\. Wait for it", done.stderr)
    assert verbs(cloud) == ["tpu-vm create"]  # and the VM is not deleted
    refused = cloud.launch(commit, *TPU, "--seed", "1", "--stop", "--delete")
    assert refused.returncode == Exit.ERROR
    assert verbs(cloud) == ["tpu-vm create"]


def test_a_run_that_has_finished_asks_for_no_machine(cloud: Cloud) -> None:
    item, options = read_options("trm-train run", "quickstart", ["--data.dataset", "small"])
    steps = options.config.total_steps
    now = "2026-01-01T00:00:00+00:00"
    status = Status(
        state="finished",
        step=steps,
        total_steps=steps,
        examples_per_s=1.0,
        loss=None,
        heartbeat=now,
        seconds=1.0,
        compile_s=1.0,
        host="h",
        process=1,
        started_at=now,
    )
    folder = run_folder(resolve_root(cloud.root), item, options.config)
    folder.write("status.json", status_bytes(status))
    commit = cloud.commit(STEPS)
    done = cloud.launch(commit, *TPU)
    assert (done.returncode, cloud.calls()) == (0, [])
    assert "finished already" in done.stderr
    folder.write("status.json", status_bytes(replace(status, state="stopped", step=1)))
    assert cloud.launch(commit, *TPU).returncode == 0
    assert verbs(cloud) == ["tpu-vm create"]


def test_a_dry_run_prints_the_commands_and_runs_none(cloud: Cloud) -> None:
    commit = cloud.commit(STEPS)
    done = cloud.launch(commit, *POD, "--dry-run", "--delete")
    assert (done.returncode, cloud.calls()) == (0, [])
    printed = re.findall(r"^\$ gcloud compute tpus tpu-vm (\S+)", done.stdout, re.MULTILINE)
    assert printed == ["create", "ssh", "ssh", "delete"]
    assert commit in done.stdout
    assert "--distributed" in done.stdout


def test_a_missing_dataset_is_named_before_anything_is_created(cloud: Cloud) -> None:
    done = cloud.launch(cloud.commit(STEPS), *TPU, what="run quickstart")
    assert done.returncode == Exit.ERROR
    assert re.search(
        r"dataset sudoku\S+ is not under \S+; put it there: trm-data build sudoku\S+ --root ", done.stderr
    )
    assert cloud.calls() == []


def test_a_bucket_that_refuses_to_be_written_is_said_before_anything_is_created(
    cloud: Cloud, server: GcsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRM_CACHE", str(tmp_path / "cache"))
    server.faults.denied = 1000
    words = cloud.words(cloud.commit(STEPS), *TPU)
    words[words.index("--root") + 1] = "gs://bucket/trm"
    done = run_here(main, *words)
    assert done.returncode == Exit.ERROR
    assert "gs://bucket/trm cannot be written" in done.stderr
    assert verbs(cloud) == []
    server.faults.denied = 0
    done = run_here(main, *words)
    assert (
        "dataset small is not under gs://bucket/trm; put it there: "
        "gcloud storage rsync -r FROM/datasets/small gs://bucket/trm/datasets/small" in done.stderr
    )
    assert server.names("bucket") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run quickstart --root /r", "--accelerator"),
        ("run --accelerator v4-8 --root /r", "no experiment named"),
        ("run quickstart --accelerator v4-8", "a TPU needs a permanent root"),
        ("run quickstart --accelerator v4 --root /r", "--accelerator v4: expected KIND-SIZE"),
        ("run quickstart --accelerator v4-8 --root /r --process-id 1", "--process-id: not with launch"),
        (
            "run quickstart --accelerator v4-8 --root /r --build",
            "--build: not with launch; build the dataset once",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_line(cloud: Cloud, words: str, said: str) -> None:
    done = run_here(main, "launch", *words.split(), "--commit", "0" * 40, "--repository", "r")
    assert (done.returncode, cloud.calls()) == (2, []), done.stderr
    assert said in done.stderr


def test_a_run_is_thrown_away_once_however_often_its_machines_go(cloud: Cloud) -> None:
    cloud.set("preempt", "logged\n")
    done = cloud.launch(cloud.commit('echo "args $*"\n' + STEPS), *TPU, "--spot", "--resume", "never")
    assert done.returncode == 0, done.stderr
    starts = re.findall(r"args (.*)", done.stdout)
    assert ["--resume never" in words for words in starts] == [True, False]
