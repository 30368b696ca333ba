"""Open files and memory: what the children may have of what the system allows."""

import resource
from pathlib import Path

import pytest

from manyhands.worker.service.stages import ProcessGroup
from manyhands.worker.supervision.limits import (
    LEAST_CHILD_BYTES,
    MIB,
    RESERVED_DESCRIPTORS,
    cgroup_memory_bytes,
    descriptors_needed,
    memory_limit_of_child,
    plan_descriptors,
    raise_descriptor_limit,
)

FETCH = ProcessGroup("fetch", 2, 10_000)
PARSE = ProcessGroup("parse", 4, 80)
NO_LIMIT_V1 = 9223372036854771712


# Open files


def test_the_process_with_most_slots_counts():
    assert descriptors_needed([PARSE, FETCH], 95) == 10_000 + 95 + RESERVED_DESCRIPTORS


def test_many_small_children_need_descriptors_of_the_supervisor():
    many = ProcessGroup("many", 500, 1)
    assert descriptors_needed([many], 3) == 3 * 500 + RESERVED_DESCRIPTORS


@pytest.mark.parametrize("soft", [1024, 5000, resource.RLIM_INFINITY])
def test_a_limit_that_suffices_is_left_alone(soft):
    plan = plan_descriptors(1024, soft, resource.RLIM_INFINITY)
    assert (plan.soft, plan.warning) == (None, "")


@pytest.mark.parametrize("hard", [1025, 4096, resource.RLIM_INFINITY])
def test_the_soft_limit_is_raised_to_what_is_needed(hard):
    plan = plan_descriptors(1025, 1024, hard)
    assert (plan.soft, plan.warning) == (1025, "")


def test_a_hard_limit_that_is_too_low_is_used_up_and_told_with_what_to_set():
    plan = plan_descriptors(10_159, 1024, 4096)
    assert plan.soft == 4096
    assert "`ulimit -n 10159`" in plan.warning
    assert "\n" not in plan.warning


def test_the_limit_is_set_for_this_process_and_its_children(monkeypatch):
    now = [(64, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: now.append(pair))
    assert raise_descriptor_limit(2000) == ""
    assert raise_descriptor_limit(2000) == ""
    assert now == [(64, 4096), (2000, 4096)]
    assert "`ulimit -n 5000`" in raise_descriptor_limit(5000)
    assert now[-1] == (4096, 4096)


# Memory


def test_the_setting_goes_before_the_cgroup():
    assert memory_limit_of_child(300, 100 * MIB, 4) == 300 * MIB


def test_without_setting_and_cgroup_there_is_no_limit():
    assert memory_limit_of_child(None, None, 4) is None


def test_children_share_what_the_cgroup_allows_with_some_kept_back():
    limit = memory_limit_of_child(None, 4096 * MIB, 4)
    assert limit is not None
    assert 900 * MIB <= limit <= 1024 * MIB * 0.95


def test_a_child_is_never_allowed_less_than_it_needs_to_start():
    assert memory_limit_of_child(None, 256 * MIB, 16) == LEAST_CHILD_BYTES


def system(root: Path, cgroup: str, **files: str | int) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_max", ".max")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


def test_the_second_version_of_cgroups_is_read(tmp_path):
    assert cgroup_memory_bytes(system(tmp_path, "0::/a/b\n", a__b__memory_max=5000)) == 5000


def test_the_least_of_a_cgroup_and_those_above_counts(tmp_path):
    root = system(tmp_path, "0::/a/b\n", a__b__memory_max=5000, a__memory_max=4000)
    assert cgroup_memory_bytes(root) == 4000


def test_a_container_has_its_limit_at_the_top(tmp_path):
    assert cgroup_memory_bytes(system(tmp_path, "0::/\n", memory_max=6000)) == 6000


def test_max_is_no_limit(tmp_path):
    assert cgroup_memory_bytes(system(tmp_path, "0::/a\n", a__memory_max="max")) is None


@pytest.mark.parametrize(
    ("content", "limit"), [("7000", 7000), (str(NO_LIMIT_V1), None), ("", None)]
)
@pytest.mark.parametrize("where", ["memory", "memory/docker/x"])
def test_the_first_version_of_cgroups_is_read(tmp_path, where, content, limit):
    root = system(tmp_path, "9:name=systemd:/\n4:hugetlb,memory:/docker/x\n0::/\n")
    path = root / "sys/fs/cgroup" / where / "memory.limit_in_bytes"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert cgroup_memory_bytes(root) == limit


def test_a_system_without_cgroups_has_no_limit(tmp_path):
    assert cgroup_memory_bytes(tmp_path) is None


def test_this_system_can_be_asked():
    found = cgroup_memory_bytes()
    assert found is None or found > MIB
