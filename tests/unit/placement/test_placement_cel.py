from __future__ import annotations

import subprocess
import sys

import pytest

from umbel.model.placement import Effect
from umbel.model.site import Site, TaintSeen
from umbel.placement import cel
from umbel.placement.clusters import managed_cluster

SITE = Site(
    "c1",
    labels={"gpu": "true", "version": "1.14.3"},
    claims={
        "platform": "aws",
        "sku": '{"H100": [{"big": 2}]}',
        "kubeversion.open-cluster-management.io": "1.30.2",
    },
    taints=(TaintSeen("drain", "soon", Effect.NO_SELECT, 1_700_000_000.0),),
    allocatable_cpu=3.9,
    capacity_cpu=4,
    allocatable_memory=16 << 30,
    gpu=2,
    scores={"energy/green": 70, "energy/price": -3},
)


def miss(expression: str, site: Site = SITE) -> str | None:
    return cel.Question([expression]).miss(site)


@pytest.mark.parametrize(
    "expression",
    [
        'managedCluster.metadata.name == "c1"',
        'managedCluster.metadata.labels["version"].matches("^1\\\\.(14|15)\\\\.\\\\d+$")',
        '"gpu" in managedCluster.metadata.labels && has(managedCluster.metadata.labels.gpu)',
        'managedCluster.status.clusterClaims.exists(c, c.name == "platform" && c.value == "aws")',
        'managedCluster["metadata"]["labels"]["gpu"] == "true"',
        'managedCluster.metadata.exists(k, k == "labels")',
        'managedCluster.exists(k, k == "status")',
        'managedCluster.status.allocatable["nvidia.com/gpu"] == "2"',
        'managedCluster.status.allocatable.cpu == "3900m"',
        'managedCluster.status.allocatable.memory == "16Gi"',
        'quantity(managedCluster.status.allocatable.memory).isGreaterThan(quantity("15G"))',
        'quantity("1Gi") == quantity("1024Mi")',
        'quantity("50k").add(20).sub(quantity("100k")).compareTo(quantity("-49980")) == 0',
        'quantity("50k").asInteger() == 50000 && !quantity("500m").isInteger()',
        'quantity("1500m").asApproximateFloat() == 1.5 && sign(quantity("-1")) == -1',
        'isQuantity("1.3Gi") && !isQuantity("200K") && !isQuantity("Mi")',
        'semver(managedCluster.status.version.kubernetes).isLessThan(semver("1.31.0"))',
        'semver("1.0.0-alpha.2").isLessThan(semver("1.0.0-alpha.10"))',
        'semver("1.0.0").compareTo(semver("1.0.0-rc.1")) == 1 && isSemver("1.2.3+build")',
        'semver("1.2.3").major() + semver("1.2.3").minor() + semver("1.2.3").patch() == 6',
        '!isSemver("v1.2.3") && !isSemver("1.2") && !isSemver("01.2.3")',
        'managedCluster.scores("energy").exists(s, s.name == "green" && s.value > 50)',
        'managedCluster.scores("energy").size() == 2',
        """managedCluster.status.clusterClaims.exists(c,
             c.name == "sku" && c.value.parseJSON().H100[0].big == 2)""",
        'managedCluster.spec.taints.all(t, t.effect == "NoSelect" && t.value == "soon")',
        'managedCluster.spec.taints[0].timeAdded == "2023-11-14T22:13:20Z"',
        'timestamp(managedCluster.spec.taints[0].timeAdded) < timestamp("2024-01-01T00:00:00Z")',
        "managedCluster.spec.hubAcceptsClient",
        "[1, 3].sum() == 4 && [].sum() == 0 && [3, 1].min() == 1 && [3, 1].max() == 3",
        '[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && ["a", "b"].isSorted()',
        '"hello mellow".indexOf("ello", 2) == 7 && "hello mellow".lastIndexOf("ello", 6) == 1',
        '"hello".lastIndexOf("l", 20) == -1 && "hello".indexOf("") == 0 && "ab".indexOf("c") == -1',
        '"a,b".split(",") == ["a", "b"] && "a b c".split(" ", 2) == ["a", "b c"]',
        '"abc".split("") == ["a", "b", "c"] && "abc".split("", 2) == ["a", "bc"]',
        '"a b".split(" ", 0) == [] && "a b".split(" ", 1) == ["a b"]',
        '["a", "b"].join("-") == "a-b" && ["a", "b"].join() == "ab"',
        '"TacoCÆt".lowerAscii() == "tacocÆt" && "é".upperAscii() == "é"',
        '"hello hello".replace("he", "we", 1) == "wello hello" && "gums".reverse() == "smug"',
        '"tacocat".substring(4) == "cat" && "tacocat".substring(0, 4) == "taco"',
        '"hello".charAt(4) == "o" && "hello".charAt(5) == "" && " x ".trim() == "x"',
        """type('{"a": 2}'.parseJSON().a) == double""",
        'bool("true") && !bool("F")',
        'managedCluster.nope.x == 1 || managedCluster.metadata.name == "c1"',
        "// a comment about fish(1)\ntrue",
        'managedCluster.metadata.name != "other(thing)"',
    ],
)
def test_expressions_that_hold(expression: str) -> None:
    assert miss(expression) is None


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (
            'managedCluster.metadata.name == "x"',
            'CEL `managedCluster.metadata.name == "x"` is false',
        ),
        (
            'managedCluster.metadata.labels["zone"] == "a"',
            'CEL `managedCluster.metadata.labels["zone"] == "a"` failed: there is no \'zone\'',
        ),
        ("managedCluster.metadata.name", "CEL `managedCluster.metadata.name` is `'c1'`, not true"),
        ('1 + "a" == 2', 'CEL `1 + "a" == 2` failed: No such overload'),
        ("1 / 0 == 1", "CEL `1 / 0 == 1` failed: division by zero"),
        ('managedCluster.scores("no").size() == 0', 'CEL `managedCluster.scores("no")'),
        ('quantity("Three") == quantity("3")', 'CEL `quantity("Three") == quantity("3")` failed'),
        ('"abc".substring(2, 1) == ""', 'CEL `"abc".substring(2, 1) == ""` failed'),
        ('"abc".indexOf("a", -1) == 0', 'CEL `"abc".indexOf("a", -1) == 0` failed'),
        ('"abc".matches("(")', 'CEL `"abc".matches("(")` failed'),
    ],
)
def test_a_site_that_does_not_match_is_told_why(expression: str, told: str) -> None:
    assert (miss(expression) or "").startswith(told)


def test_a_long_expression_is_cut_in_reasons() -> None:
    told = miss("managedCluster.metadata.name in [" + ", ".join(["'x'"] * 50) + "]")
    assert told is not None
    assert len(told) < 100


def test_what_is_empty_is_absent_as_in_the_real_object() -> None:
    bare = Site("b")
    assert miss("has(managedCluster.metadata.labels)", bare) is not None
    assert miss("!has(managedCluster.spec.taints)", bare) is None
    assert miss("!has(managedCluster.status.clusterClaims)", bare) is None
    assert managed_cluster(bare)["status"] == {"version": {}}


def test_one_question_is_asked_of_many_sites() -> None:
    question = cel.Question(['managedCluster.scores("a").all(s, s.value > 0)'])
    assert question.miss(Site("x", scores={"a/b": 1})) is None
    assert question.miss(Site("y", scores={"a/b": -1})) is not None
    assert question.miss(Site("z")) is not None
    assert question.miss(Site("x", scores={"a/b": 1})) is None


@pytest.mark.parametrize(
    ("expression", "at", "why"),
    [
        ("managedCluster.metadata.name +", (1, 31), "it ends too early"),
        ("true &&\n  (1 == ", (2, 9), "it ends too early"),
        ("'abc", (1, 1), "unreadable ''abc'"),
        ('"(x" == managedCluster.metadata.nam.e && fish(1)', (1, 42), "unknown function 'fish'"),
        ("true &&\n  foo == 1", (2, 3), "unknown name 'foo'"),
        ("managedCluster.metadata.?labels.hasValue()", (1, 24), "unsupported syntax '.?'"),
        ("math.greatest(1, 2) == 2", (1, 6), "unknown function 'greatest'"),
        ("(" * 600 + "1" + ")" * 600, (1, 97), "nested too deeply"),
        ("managedCluster.metadata.name = 'a'", (1, 30), "unexpected '='"),
        ("true true", (1, 6), "unexpected 'true'"),
        ("'<input>:9:9: x' +", (1, 19), "it ends too early"),
    ],
)
def test_what_does_not_compile_is_refused_with_its_position(
    expression: str, at: tuple[int, int], why: str
) -> None:
    with pytest.raises(cel.CelInvalid) as caught:
        cel.compile(expression)
    error = caught.value
    assert error.code == "U150"
    assert why in error.fact
    assert error.hint
    assert (error.line, error.column) == at
    assert f"line {at[0]}, column {at[1]}" in error.fact


def test_bound_names_are_known() -> None:
    cel.compile("[[1]].all(row, row.exists(x, x == 1) && row.map(y, y > 0, y).size() == 1)")


def test_only_the_places_that_are_looked_at_are_built() -> None:
    def places(expression: str) -> set[str]:
        return {key for _, key in cel.compile(expression).places}

    assert places('managedCluster.metadata.labels["a"] == "b"') == {"labels"}
    assert places('managedCluster.scores("a").size() == 1') == set()
    assert places("managedCluster.metadata.size() == 2") == {"labels", "name"}
    assert places('managedCluster["spec"]["taints"].size() == 2') >= {"labels", "taints", "version"}
    assert places('"managedCluster.spec" == managedCluster.metadata.name') == {"name"}


def test_the_evaluator_comes_without_its_command_line() -> None:
    code = (
        "import sys; from umbel.placement import cel; cel.compile('true');"
        "print([name for name in ('prompt_toolkit', 'typer') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
