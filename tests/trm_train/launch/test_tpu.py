"""A TPU created by gcloud: problems are reported with a remedy; an existing VM is used or left alone."""

from __future__ import annotations

import json

import pytest

from tests.trm_train.launch.conftest import Cloud
from trm_train.errors import CapacityError, LaunchError
from trm_train.launch import scripts
from trm_train.launch.flow import RUNTIMES, Tpu, TpuRequest
from trm_train.launch.scripts import Source

RUN = "quickstart-00000000-s0"
QUOTA = "Quota limit 'TPUV4PodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0 in zone us-central2-b."
FULL = 'There is no more capacity in the zone "us-central2-b"; you can try in another zone'


def tpu(messages: list[str] | None = None, **fields: object) -> Tpu:
    request = TpuRequest(**{"name": "trm", "accelerator": "v4-8", "zone": "us-central2-b", **fields})  # type: ignore[arg-type]
    say = (lambda _: None) if messages is None else messages.append
    return Tpu(request, Source("r", "0" * 40), ["tpu", "gcs"], say)


def refusal(cloud: Cloud, **fields: object) -> str:
    with pytest.raises(LaunchError) as caught:
        tpu(**fields).ensure()
    return str(caught.value)


def test_a_machine_without_gcloud_is_told_so(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cloud.folder / "host_bin"))
    with pytest.raises(LaunchError, match="gcloud is not on the PATH"):
        tpu().ensure()


@pytest.mark.parametrize("text", [QUOTA, "PERMISSION_DENIED: Permission 'tpu.nodes.create' denied"])
def test_a_refusal_is_one_line_with_what_gcloud_printed(cloud: Cloud, text: str) -> None:
    cloud.set("refuse", text)
    line = refusal(cloud)
    assert line == f"v4-8 trm could not be created: ERROR: (gcloud.compute.tpus) {text}"


def test_a_zone_without_a_free_tpu_is_another_error_which_a_restart_waits_for(cloud: Cloud) -> None:
    cloud.set("refuse", FULL)
    with pytest.raises(CapacityError, match="no v4-8 is free: --queued waits in line"):
        tpu().ensure()


def test_a_tpu_that_is_there_is_used(cloud: Cloud) -> None:
    tpu().ensure()
    tpu().ensure()
    assert sum(" create " in call for call in cloud.calls()) == 1


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
    assert [host.word for host in there.ask(scripts.look(RUN))] == ["absent", "absent"]
    with pytest.raises(LaunchError, match="0 of 2 hosts installed"):
        there.everywhere("installed", "echo nothing")
    cloud.set("silent", "yes")
    assert there.ask(scripts.look(RUN)) == []


def test_every_kind_has_a_runtime() -> None:
    for kind, runtime in RUNTIMES.items():
        assert runtime in TpuRequest(name="a", accelerator=f"{kind}-8").creation()
    with pytest.raises(LaunchError, match="expected KIND-SIZE"):
        TpuRequest(name="a", accelerator="v9-8")
    assert "new" in TpuRequest(name="a", accelerator="v9-8", runtime="new").creation()
