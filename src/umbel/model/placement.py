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
    operator: Operator = Field(description="In and NotIn need values, the others have none.")
    values: tuple[str, ...] = Field(default=(), description="Compared as text.")


class LabelSelector(Spec):
    """All of it must hold."""

    match_labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Labels that the site must have, with these values."
    )
    match_expressions: tuple[Requirement, ...] = Field(
        default=(), description="Requirements on labels."
    )


class ClaimSelector(Spec):
    """All of it must hold, over the claims that a site makes about itself."""

    match_expressions: tuple[Requirement, ...] = Field(
        default=(), description="Requirements on claims."
    )


class CelSelector(Spec):
    """All expressions must be true; `managedCluster` is the site."""

    cel_expressions: tuple[Annotated[str, Field(min_length=1, max_length=2048)], ...] = Field(
        default=(), description="An expression that fails counts as false."
    )


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

    resource_name: str = Field(min_length=1, description="Who publishes: before the slash.")
    score_name: str = Field(min_length=1, description="What it is about: after the slash.")


class ScoreCoordinate(Spec):
    """Where a score comes from."""

    type: Literal["BuiltIn", "AddOn"] = Field(
        default="BuiltIn", description="Which of the two keys below counts."
    )
    built_in: BuiltIn | None = Field(default=None, description="A score that Umbel computes.")
    add_on: AddOnScore | None = Field(
        default=None, description="A score that the site has; 0 where it has none."
    )


class PrioritizerConfig(Spec):
    """A score and how much it counts."""

    score_coordinate: ScoreCoordinate
    weight: int = Field(
        default=1, ge=-10, le=10, description="0 leaves it out; below 0 turns it round."
    )


class PrioritizerPolicy(Spec):
    """Additive keeps the default prioritizers (Steady and Balance), Exact does not."""

    mode: Literal["Additive", "Exact"] = Field(
        default="Additive", description="Whether the default prioritizers count too."
    )
    configurations: tuple[PrioritizerConfig, ...] = Field(
        default=(), description="The prioritizers; their weighted scores are added up."
    )


class Effect(StrEnum):
    """What a taint does."""

    NO_SELECT = "NoSelect"
    PREFER_NO_SELECT = "PreferNoSelect"
    NO_SELECT_IF_NEW = "NoSelectIfNew"


class Toleration(Spec):
    """Lets a placement choose sites with a matching taint."""

    key: str = Field(default="", description="The taint's key; empty: every key.")
    operator: Literal["Equal", "Exists"] = Field(
        default="Equal", description="Exists does not look at the value."
    )
    value: str = Field(default="", description="The taint's value, for Equal.")
    effect: Effect | None = Field(default=None, description="Left out: every effect.")
    toleration_seconds: int | None = Field(
        default=None, ge=0, description="How long after the taint came; left out: for ever."
    )


class SpreadConstraint(Spec):
    """Keeps the chosen sites even over a label's or claim's values."""

    topology_key: str = Field(min_length=1, description="The label or claim, such as region.")
    topology_key_type: Literal["Label", "Claim"] = Field(
        default="Label", description="Which of the two it is."
    )
    max_skew: int = Field(
        default=1, ge=1, description="How many more one value may have than the one with fewest."
    )
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = Field(
        default="ScheduleAnyway", description="Leave a site out, or only put it last."
    )


class SpreadPolicy(Spec):
    """In the order of their importance."""

    spread_constraints: tuple[SpreadConstraint, ...] = Field(
        default=(), max_length=8, description="An earlier one counts more."
    )


class DecisionGroup(Spec):
    """A named part of the decisions, for rollouts."""

    group_name: Name = Field(description="The group's name.")
    group_cluster_selector: SiteSelector = Field(
        default=SiteSelector(), description="The chosen sites that belong to it."
    )


class GroupStrategy(Spec):
    """How decisions are cut into groups."""

    decision_groups: tuple[DecisionGroup, ...] = Field(
        default=(), description="In the order of the rollout; the rest comes last."
    )
    clusters_per_decision_group: (
        Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")]
    ) = Field(default="100%", description="The most that one group may have, or a percentage.")


class DecisionStrategy(Spec):
    """How decisions are cut into groups."""

    group_strategy: GroupStrategy = GroupStrategy()


class Placement(Spec):
    """Which sites a group uses; empty means all of them."""

    cluster_sets: tuple[Name, ...] = Field(
        default=(), description="Only sites of these sets; left out: of every set."
    )
    number_of_clusters: int | None = Field(
        default=None, ge=0, le=100_000, description="How many at most; left out: all that qualify."
    )
    predicates: tuple[Predicate, ...] = Field(
        default=(), description="A site must satisfy one of them; left out: every site does."
    )
    prioritizer_policy: PrioritizerPolicy = Field(
        default=PrioritizerPolicy(), description="Which sites come first when not all are wanted."
    )
    spread_policy: SpreadPolicy = Field(
        default=SpreadPolicy(), description="Keeps the choice even over regions and the like."
    )
    tolerations: tuple[Toleration, ...] = Field(
        default=(), description="Taints that do not keep this placement away."
    )
    decision_strategy: DecisionStrategy = Field(
        default=DecisionStrategy(), description="How the chosen are cut into groups."
    )
