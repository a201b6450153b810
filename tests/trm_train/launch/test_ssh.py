"""Hosts reached by ssh: each knows its rank; the launch waits for a host that loses its connection."""

from __future__ import annotations

from tests.trm_train.launch.conftest import Cloud
from tests.trm_train.launch.test_flow import STEPS
from trm_data.command import Exit

HOSTS = ("--hosts", "me@one,two", "--port", "9000")


def test_each_host_knows_its_place_and_the_first_has_the_coordinator(cloud: Cloud) -> None:
    done = cloud.launch(cloud.commit('echo "$*" > "$FAKE_CLOUD/$FAKE_HOST.words"'), *HOSTS)
    assert done.returncode == 0, done.stderr
    for index, host in enumerate(("me@one", "two")):
        (words,) = cloud.calls(f"{host}.words")
        together = f"--coordinator one:9000 --num-processes 2 --process-id {index}"
        assert words == f"run quickstart --data.dataset small --root {cloud.root} {together}"


def test_one_host_needs_no_coordinator(cloud: Cloud) -> None:
    done = cloud.launch(
        cloud.commit('echo "$*" > "$FAKE_CLOUD/words"'), "--hosts", "one", "--extras", "cuda,gcs"
    )
    assert done.returncode == 0, done.stderr
    assert cloud.calls("words") == [f"run quickstart --data.dataset small --root {cloud.root}"]
    assert cloud.calls("synced") == ["sync --quiet --locked --no-default-groups --extra cuda --extra gcs"]


def test_hosts_that_cannot_be_reached_are_all_named_before_anything_runs(cloud: Cloud) -> None:
    cloud.set("down", "me@one\ntwo\n")
    done = cloud.launch(cloud.commit("exit 0"), *HOSTS)
    assert done.returncode == Exit.ERROR
    assert (
        "me@one cannot be reached: ssh: connect to host me@one: Connection timed out; try: ssh me@one"
        in done.stderr
    )
    assert "two cannot be reached" in done.stderr


def test_the_failing_host_is_named(cloud: Cloud) -> None:
    done = cloud.launch(cloud.commit('[ "$FAKE_HOST" = two ] && exit 3; exit 5'), *HOSTS)
    assert done.returncode == 3
    assert "exit code 3 on two" in done.stderr


def test_a_commit_that_cannot_be_installed_ends_the_launch_with_the_reason(cloud: Cloud) -> None:
    done = cloud.launch("0" * 40, *HOSTS)
    assert done.returncode == Exit.ERROR
    assert "0 of 2 hosts installed" in done.stderr
    assert "0000000000" in done.stderr


def test_a_commit_is_installed_once(cloud: Cloud) -> None:
    commit = cloud.commit(STEPS)
    for _ in range(2):
        assert cloud.launch(commit, *HOSTS).returncode == 0
    assert len(cloud.calls("synced")) == 2  # on each host
