"""Jobs of Slurm: submitted once, watched, queued again by Slurm, lost and submitted again, stopped."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.trm_train.launch.conftest import Cloud
from tests.trm_train.launch.test_flow import STEPS, until
from trm_data.command import Exit


@pytest.fixture(autouse=True)
def home(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home that the nodes share, with what they have on the PATH."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(cloud.folder / "host_bin"), prepend=os.pathsep)
    monkeypatch.setenv("FAKE_HOST", "login")
    return home


SLURM = ("--slurm", "--nodes", "2", "--sbatch=--partition=gpu --time=1:00:00")


def submitted(cloud: Cloud) -> list[str]:
    return [call for call in cloud.calls() if call.startswith("sbatch ")]


def test_a_job_trains_a_run_on_its_nodes(cloud: Cloud) -> None:
    done = cloud.launch(cloud.commit('echo "$SLURM_PROCID: $*"'), *SLURM)
    assert done.returncode == 0, done.stderr
    (job,) = submitted(cloud)
    for word in ("--nodes=2", "--ntasks-per-node=1", "--requeue", "--partition=gpu", "--time=1:00:00"):
        assert f" {word} " in job
    ran = f"run quickstart --data.dataset small --root {cloud.root} --distributed"
    assert sorted(line for line in done.stdout.splitlines() if "run " in line) == [f"0: {ran}", f"1: {ran}"]
    assert cloud.calls("synced") == ["sync --quiet --locked --no-default-groups --extra gcs"]


def test_a_job_that_waits_is_found_and_watched(cloud: Cloud) -> None:
    cloud.set("pending", "yes")
    commit = cloud.commit(STEPS)
    for _ in range(2):
        assert cloud.launch(commit, "--slurm", "--detach").returncode == 0
    (cloud.folder / "pending").unlink()
    done = cloud.launch(commit, "--slurm")
    assert (done.returncode, len(submitted(cloud))) == (0, 1), done.stderr
    assert "goes on; watched from here" in done.stderr
    assert len(cloud.calls("steps")) == 20


def test_a_job_that_slurm_queues_again_is_watched_on(cloud: Cloud) -> None:
    cloud.set("requeue", "0.8\n")
    done = cloud.launch(cloud.commit(STEPS), "--slurm")
    assert (done.returncode, len(submitted(cloud))) == (0, 1), done.stderr
    assert done.stdout.count("goes on from step") == 2
    assert "waits for Slurm: PENDING (Resources)" in done.stderr


def test_a_job_that_is_lost_is_submitted_again(cloud: Cloud) -> None:
    commit = cloud.commit('mkdir "$FAKE_CLOUD/once" && kill -9 $PPID; exit 0')
    done = cloud.launch(commit, "--slurm", "--json")
    assert (done.returncode, len(submitted(cloud))) == (0, 2), done.stderr
    assert json.loads(done.stdout)[0]["restarts"] == 1


def test_the_code_of_a_run_that_fails_is_that_of_the_launch(cloud: Cloud) -> None:
    done = cloud.launch(cloud.commit("exit $((SLURM_PROCID * 3))"), *SLURM)
    assert (done.returncode, len(submitted(cloud))) == (3, 1)
    assert "exit code 3 on node 1" in done.stderr


def test_a_job_is_asked_to_save_a_checkpoint_and_a_waiting_one_is_cancelled(cloud: Cloud) -> None:
    commit = cloud.commit(STEPS.replace("lt 20", "lt 2000"))
    cloud.launch(commit, "--slurm", "--detach")
    until(lambda: len(cloud.calls("steps")) > 1)
    assert cloud.launch(commit, "--slurm", "--stop").returncode == 0
    (code,) = (Path.home() / "trm-lab" / "launch").glob("*/code-0")
    assert code.read_text() == f"{int(Exit.TERMINATED)}\n"
    cloud.set("pending", "yes")
    cloud.launch(commit, "--slurm", "--detach")
    done = cloud.launch(commit, "--slurm", "--stop")
    assert done.returncode == 0, done.stderr
    count = len(cloud.calls("steps"))
    time.sleep(0.3)
    assert len(cloud.calls("steps")) == count


def test_a_machine_that_cannot_submit_is_told_so(cloud: Cloud) -> None:
    for name in ("sbatch", "squeue"):
        (cloud.folder / "bin" / name).unlink()
    done = cloud.launch(cloud.commit("exit 0"), *SLURM)
    assert done.returncode == Exit.ERROR
    assert "sbatch, squeue: not on the PATH; launch from a machine that submits jobs" in done.stderr
