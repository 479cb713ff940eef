"""Which sites a group uses: Open Cluster Management's Placement vocabulary, on every target."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from umbel.model.document import LabelKey, LabelValue, Name, Spec


class Operator(StrEnum):
    """How a requirement compares."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(Spec):
    """One line of a selector."""

    key: str = Field(min_length=1, description="Label or claim name.")
    operator: Operator
    values: tuple[str, ...] = ()


class LabelSelector(Spec):
    """All of it must hold."""

    match_labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()


class ClaimSelector(Spec):
    """All of it must hold, over the claims that a site makes about itself."""

    match_expressions: tuple[Requirement, ...] = ()


class CelSelector(Spec):
    """All expressions must be true; `managedCluster` is the site."""

    cel_expressions: tuple[Annotated[str, Field(min_length=1, max_length=2048)], ...] = ()


class SiteSelector(Spec):
    """Label, claim and CEL selectors, all of which must hold."""

    label_selector: LabelSelector = LabelSelector()
    claim_selector: ClaimSelector = ClaimSelector()
    cel_selector: CelSelector = CelSelector()


class Predicate(Spec):
    """One way for a site to qualify; a placement's predicates are alternatives."""

    required_cluster_selector: SiteSelector = SiteSelector()


class BuiltIn(StrEnum):
    """The prioritizers that need no add-on."""

    STEADY = "Steady"
    BALANCE = "Balance"
    RESOURCE_ALLOCATABLE_CPU = "ResourceAllocatableCPU"
    RESOURCE_ALLOCATABLE_MEMORY = "ResourceAllocatableMemory"


class AddOnScore(Spec):
    """A score that somebody publishes about a site."""

    resource_name: str = Field(min_length=1)
    score_name: str = Field(min_length=1)


class ScoreCoordinate(Spec):
    """Where a score comes from."""

    type: Literal["BuiltIn", "AddOn"] = "BuiltIn"
    built_in: BuiltIn | None = None
    add_on: AddOnScore | None = None


class PrioritizerConfig(Spec):
    """A score and how much it counts."""

    score_coordinate: ScoreCoordinate
    weight: int = Field(default=1, ge=-10, le=10)


class PrioritizerPolicy(Spec):
    """Additive keeps the default prioritizers (Steady and Balance), Exact does not."""

    mode: Literal["Additive", "Exact"] = "Additive"
    configurations: tuple[PrioritizerConfig, ...] = ()


class Effect(StrEnum):
    """What a taint does."""

    NO_SELECT = "NoSelect"
    PREFER_NO_SELECT = "PreferNoSelect"
    NO_SELECT_IF_NEW = "NoSelectIfNew"


class Toleration(Spec):
    """Lets a placement choose sites with a matching taint."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Effect | None = None
    toleration_seconds: int | None = Field(default=None, ge=0)


class SpreadConstraint(Spec):
    """Keeps the chosen sites even over a label's or claim's values."""

    topology_key: str = Field(min_length=1)
    topology_key_type: Literal["Label", "Claim"] = "Label"
    max_skew: int = Field(default=1, ge=1)
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "ScheduleAnyway"


class SpreadPolicy(Spec):
    """In the order of their importance."""

    spread_constraints: tuple[SpreadConstraint, ...] = Field(default=(), max_length=8)


class DecisionGroup(Spec):
    """A named part of the decisions, for rollouts."""

    group_name: Name
    group_cluster_selector: SiteSelector = SiteSelector()


class GroupStrategy(Spec):
    """How decisions are cut into groups."""

    decision_groups: tuple[DecisionGroup, ...] = ()
    clusters_per_decision_group: (
        Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")]
    ) = "100%"


class DecisionStrategy(Spec):
    """How decisions are cut into groups."""

    group_strategy: GroupStrategy = GroupStrategy()


class Placement(Spec):
    """Which sites a group uses; empty means all of them."""

    cluster_sets: tuple[Name, ...] = ()
    number_of_clusters: int | None = Field(default=None, ge=0, le=100_000)
    predicates: tuple[Predicate, ...] = ()
    prioritizer_policy: PrioritizerPolicy = PrioritizerPolicy()
    spread_policy: SpreadPolicy = SpreadPolicy()
    tolerations: tuple[Toleration, ...] = ()
    decision_strategy: DecisionStrategy = DecisionStrategy()
