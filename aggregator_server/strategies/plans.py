"""From a request to a round's plan: the strategies and methods that it can name, the recommended strategy, settings.

The aggregator fills in every setting, so that a device reads all of them from its plan. What a local method and a
personalisation can be set to stands where both sides read it (fleet_protocol/methods).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, get_args

from aggregator_server.aggregation.rule import rules
from aggregator_server.errors import RefusedError
from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.strategies.selection import selections
from aggregator_server.strategies.sharing import SHARING
from aggregator_server.strategies.strategy import Strategy
from fleet_protocol.errors import PlanError, PluginError
from fleet_protocol.limits import LARGEST_GROUP, LEAST_GROUP
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.messages.rest import Choice, RoundPlan
from fleet_protocol.methods import setting
from fleet_protocol.methods.local_methods import local_methods
from fleet_protocol.methods.personalisations import personalisations
from fleet_protocol.methods.registry import Registry, discover
from fleet_protocol.methods.setting import Settings, Value
from fleet_protocol.secure_sums.privacy_budget import noise_for

_LEAST_EPSILON, _MOST_EPSILON = 0.1, 100.0
_MAX_DEADLINE_S = 30 * 86_400.0
Part = Literal["local", "aggregation", "selection", "personalisation"]


def known_settings(part: Part) -> Mapping[str, Settings]:
    """Return the settings of all methods of a part of a plan. Raises PluginError: a package's cannot be used."""
    if part == "local":
        return {name: method.settings for name, method in local_methods().items()}
    if part == "aggregation":
        return {name: rule.all_settings for name, rule in rules().items()}
    if part == "selection":
        return {name: selection.settings for name, selection in selections().items()}
    return {name: personalisation.settings for name, personalisation in personalisations().items()}


def complete(part: Part, choice: Choice) -> Choice:
    """Check a part of a plan and add the defaults of the settings that it leaves out.

    Raises PlanError: it is unknown, or a setting is; says what is allowed. PluginError: a package's cannot be used.
    """
    methods = known_settings(part)
    if choice.name not in methods:
        raise PlanError(f"unknown {part} method {choice.name!r}; known: {', '.join(sorted(methods))}")
    called = f"{part} method {choice.name!r}"
    return Choice(choice.name, setting.complete(called, methods[choice.name], choice.settings))


@cache
def strategies() -> Registry[Strategy]:
    """Return every strategy by name. Raises PluginError: a package's cannot be used, or names an unknown method."""
    found = discover("STRATEGY", "auricle.strategies", Strategy, table=SHARING, package=__package__)
    for name, strategy in found.items():
        for part in get_args(Part):
            method, known = getattr(strategy, part), known_settings(part)
            if method not in known:
                raise PluginError(
                    f"strategy {name!r} names the unknown {part} method {method!r}; known: {', '.join(known)}"
                )
    return found


def strategy(name: str) -> Strategy:
    """Return a strategy by its name. Raises RefusedError: there is none; PluginError: a package's cannot be used."""
    found = strategies().get(name)
    if found is None:
        raise RefusedError("unknown_strategy", f"unknown strategy {name!r}; known: {', '.join(sorted(strategies()))}")
    return found


@dataclass(frozen=True)
class FleetKind:
    """What the recommendation depends on."""

    embeddings: bool  # whether the public set's features are those of a pretrained network
    shares_network: bool  # whether a shared model was published, and all devices have its network


def recommended(request: RoundRequest, fleet: FleetKind) -> RoundRequest:
    """Return a request with a strategy: the one that it names, or else the fleet's best."""
    if request.strategy != RECOMMENDED:
        return request
    if fleet.embeddings:
        return replace(request, strategy="prototypes")
    if not fleet.shares_network:
        return replace(request, strategy="zero_shot")
    return replace(request, strategy="fedavg", aggregation=request.aggregation or Choice("screened_mean"))


def make_plan(request: RoundRequest, chosen: Strategy | None = None) -> RoundPlan:
    """Turn a request into a plan with every setting filled in; ``chosen`` is its strategy, where it is known already.

    Raises RefusedError: there is no such strategy, or a setting is unknown, of a wrong type or out of range.
    """
    chosen = chosen or strategy(request.strategy)
    try:
        _check(request)
        usual = chosen.personalisation if request.private is None else "none"
        personalisation = complete("personalisation", request.personalisation or Choice(usual))
        _check_groups(personalisation, chosen)
        private = None if request.private is None else _private(request, chosen, personalisation)
        plan = RoundPlan(
            local=complete("local", Choice(chosen.local, request.settings)),
            aggregation=_aggregation(chosen, request.aggregation, private),
            selection=complete("selection", _choice(request.selection or {}, chosen.selection)),
            deadline_s=float(request.deadline_s),
            quorum=float(request.quorum),
            seed=request.seed,
            personalisation=personalisation,
            private=private,
        )
        if private is not None and chosen.private is not None:
            chosen.private.check_plan(plan)
        return plan
    except PlanError as error:
        raise RefusedError("invalid_plan", str(error)) from error


def _check(request: RoundRequest) -> None:
    """Check the numbers that are no method's settings."""
    if not 0 < request.deadline_s <= _MAX_DEADLINE_S:
        raise PlanError(f"deadline_s must be above 0 and at most {_MAX_DEADLINE_S:g} s, not {request.deadline_s!r}")
    if not 0 <= request.quorum <= 1:
        raise PlanError(f"quorum is a share from 0 to 1, not {request.quorum!r}")
    if not 0 <= request.seed < 2**31:
        raise PlanError(f"seed must be from 0 to {2**31 - 1}, not {request.seed!r}")
    if request.new_classes is not None and not 1 <= request.new_classes <= 1_000:
        raise PlanError(f"new_classes must be from 1 to 1000 or left out, not {request.new_classes!r}")


def _check_groups(personalisation: Choice, chosen: Strategy) -> None:
    """Check that there is a model which groups can train among themselves, where the personalisation has groups."""
    known = personalisations()
    if known[personalisation.name].groups and not chosen.shares_model:
        able = ", ".join(sorted(name for name, other in known.items() if not other.groups))
        raise PlanError(
            f"strategy {chosen.name!r} shares no model that groups could train among themselves; "
            f"its personalisation can be: {able}"
        )


def _private(request: RoundRequest, chosen: Strategy, personalisation: Choice) -> PrivatePlan:
    """Return how a round sums. Raises PlanError: something of the request needs each device's own numbers."""
    assert request.private is not None
    groups, epsilon = request.private.groups, request.private.epsilon
    if chosen.private is None:
        able = ", ".join(sorted(name for name, other in strategies().items() if other.private is not None))
        raise PlanError(f"strategy {chosen.name!r} needs each device's upload; a private round can be of: {able}")
    if not LEAST_GROUP <= groups <= LARGEST_GROUP:
        raise PlanError(
            f"private groups have {LEAST_GROUP} to {LARGEST_GROUP} devices, not {groups}: of fewer a sum says too "
            "much of each, and of more one that stays away costs too much"
        )
    if personalisation.name != "none":
        raise PlanError(f"a private round has personalisation 'none', not {personalisation.name!r}; leave it out")
    if request.new_classes is not None:
        raise PlanError("a private round looks for no new sounds; leave new_classes out")
    if epsilon is None:
        return PrivatePlan(groups)
    if chosen.private.settings_with_noise is None:
        raise PlanError(f"what a device adds in a round of {chosen.name!r} has no bound for noise; leave epsilon out")
    if not _LEAST_EPSILON <= epsilon <= _MOST_EPSILON:
        raise PlanError(
            f"epsilon is from {_LEAST_EPSILON} to {_MOST_EPSILON:g}, not {epsilon!r}: with less nothing is left of a "
            "sum but noise, and more promises nothing"
        )
    return PrivatePlan(groups, noise_for(epsilon))


def _choice(wanted: Choice | dict[str, Value], own: str) -> Choice:
    """Return the method that was named, else the strategy's own with these settings."""
    if isinstance(wanted, Choice):
        return wanted
    # A name alone reads like one setting, and no method has a setting of that name.
    return Choice(str(wanted["name"])) if list(wanted) == ["name"] else Choice(own, wanted)


def _aggregation(chosen: Strategy, wanted: Choice | dict[str, Value], private: PrivatePlan | None) -> Choice:
    """Return the plan's aggregation part: the rule that was named, else the strategy's own with these settings."""
    wanted = _choice(wanted, chosen.aggregation)
    if wanted.name not in chosen.aggregations:
        allowed = ", ".join(sorted(chosen.aggregations))
        raise PlanError(f"this strategy cannot use the aggregation {wanted.name!r}; it can use: {allowed}")
    known = known_settings("aggregation")[wanted.name]
    own = {name: value for name, value in chosen.defaults.items() if name in known}
    fixed: Mapping[str, Value] = {}
    if private is not None and chosen.private is not None:
        fixed = (chosen.private.settings_with_noise or {}) if private.noise else chosen.private.settings
    for name, value in fixed.items():
        if wanted.settings.get(name, value) != value:
            raise PlanError(
                f"a private round cannot have {name} = {wanted.settings[name]!r}, which needs each device's upload; "
                f"leave it out ({value!r})"
            )
    return complete("aggregation", Choice(wanted.name, own | dict(fixed) | wanted.settings))
