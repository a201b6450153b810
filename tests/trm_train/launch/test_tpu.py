"""A TPU created by gcloud: problems are reported with a remedy; an existing VM is used or left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trm_train.launch.conftest import Cloud
from trm_train.errors import CapacityError, LaunchError
from trm_train.launch.shell import Done, Shell
from trm_train.launch.source import Source
from trm_train.launch.target import Work
from trm_train.launch.tpu import RUNTIMES, Tpu, TpuRequest, refused

WORK = Work("quickstart-00000000-s0", ("run", "quickstart"))
QUOTA = "Quota limit 'TPUV4PodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0 in zone us-central2-b."
FULL = 'There is no more capacity in the zone "us-central2-b"; you can try in another zone'


def tpu(said: list[str] | None = None, **fields: object) -> Tpu:
    request = TpuRequest(**{"name": "trm", "accelerator": "v4-8", "zone": "us-central2-b", **fields})  # type: ignore[arg-type]
    say = (lambda _: None) if said is None else said.append
    return Tpu(Shell(say), Source("r", "0" * 40), ["tpu", "gcs"], request)


def refusal(cloud: Cloud, **fields: object) -> str:
    with pytest.raises(LaunchError) as caught:
        tpu(**fields).ensure()
    return str(caught.value)


def test_login_project_and_zone_are_asked_for_before_anything_is_created(cloud: Cloud) -> None:
    assert tpu().problems() == []
    cloud.set("project", "")
    cloud.set("zone", "")
    found = tpu(zone=None).problems()
    assert [line.split(":")[0] for line in found] == ["no project", "no zone"]
    assert tpu(zone="z", project="p").problems() == []
    cloud.set("account", "")
    assert tpu().problems() == ["nobody is logged in to gcloud: gcloud auth login"]


def test_a_kind_that_the_zone_has_not_is_said(cloud: Cloud) -> None:
    cloud.set("offered", "v4-8")
    (problem,) = tpu(accelerator="v6e-8").problems()
    assert "v6e-8 is not offered in this zone" in problem


def test_a_machine_without_gcloud_is_told_so(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cloud.folder / "host_bin"))
    with pytest.raises(LaunchError, match="gcloud is not on the PATH"):
        tpu().problems()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (QUOTA, "the quota does not allow v4-8 in us-central2-b: ask for more at"),
        ("PERMISSION_DENIED: Permission 'tpu.nodes.create' denied", "roles/tpu.admin"),
        ("Cloud TPU API has not been used in project 1 before", "gcloud services enable tpu.googleapis.com"),
        ("There was a problem refreshing your current auth tokens: Reauthentication", "gcloud auth login"),
        ("something else", "exit code 1: ERROR: (gcloud.compute.tpus) something else"),
    ],
)
def test_a_refusal_is_said_in_one_line_with_the_way_out(cloud: Cloud, text: str, said: str) -> None:
    cloud.set("refuse", text)
    line = refusal(cloud)
    assert said in line
    assert text.split()[0] in line
    assert "\n" not in line


def test_where_no_tpu_is_free_the_first_request_says_so_and_a_later_one_can_wait(cloud: Cloud) -> None:
    cloud.set("refuse", FULL)
    with pytest.raises(CapacityError, match="no v4-8 is free in us-central2-b: --queued waits in line"):
        tpu().ensure()
    failed = Done("gcloud", 1, "", "RESOURCE_EXHAUSTED: Quota exceeded")
    assert not isinstance(refused(failed, TpuRequest(name="a", accelerator="v4-8")), CapacityError)


def test_a_tpu_that_is_there_is_used(cloud: Cloud) -> None:
    tpu().ensure()
    tpu().ensure()
    assert sum(" create " in call for call in cloud.calls()) == 1


def test_a_tpu_of_another_kind_is_neither_used_nor_deleted(cloud: Cloud) -> None:
    tpu().ensure()
    (problem,) = tpu(accelerator="v4-16").problems()
    assert problem.startswith("trm exists as v4-8 (expected v4-16)")
    assert "exists as v4-8" in refusal(cloud, accelerator="v4-16")
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
    assert tpu().look(WORK).gone == f"v4-8 trm is {state}"
    tpu(said).ensure()
    assert f"v4-8 trm is {state}: deleting and creating it again" in said
    assert not tpu().look(WORK).gone


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


def test_hosts_that_are_silent_for_a_moment_are_not_taken_for_lost(cloud: Cloud) -> None:
    there = tpu(accelerator="v4-16")
    there.ensure()
    assert [host.state for host in there.look(WORK).hosts] == ["absent", "absent"]
    cloud.set("silent", "yes")
    assert [bool(there.look(WORK).gone) for _ in range(4)] == [False, False, False, True]


def test_somebody_else_s_process_on_the_chips_is_named(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chip = tmp_path / "accel0"
    chip.touch()
    monkeypatch.setattr("trm_train.launch.scripts.DEVICES", (str(chip),))
    there = tpu()
    there.ensure()
    assert there.look(WORK).others == ()
    with chip.open():
        (other,) = there.look(WORK).others
    assert other.endswith("on t1v-trm-1-w-0")
    assert other.startswith("process ")


def test_the_number_of_hosts_is_that_of_the_machine() -> None:
    hosts = {"v4-8": 1, "v4-64": 8, "v3-32": 4, "v5litepod-8": 1, "v5litepod-16": 4, "v6e-4": 1, "v6e-64": 16}
    assert {name: TpuRequest(name="a", accelerator=name).hosts for name in hosts} == hosts


def test_every_kind_has_a_runtime() -> None:
    for kind in RUNTIMES:
        assert TpuRequest(name="a", accelerator=f"{kind}-8").software
    with pytest.raises(LaunchError, match="expected KIND-SIZE"):
        TpuRequest(name="a", accelerator="v9-8")
    assert TpuRequest(name="a", accelerator="v9-8", runtime="new").software == "new"
