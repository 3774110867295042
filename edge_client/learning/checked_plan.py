"""A plan as the training may use it: every setting is there, of its type and in its range."""

from __future__ import annotations

import dataclasses

from edge_client.learning.methods.registry import local_methods
from edge_client.learning.personalisations.registry import personalisations
from fleet_protocol.errors import PlanError
from fleet_protocol.messages import Choice, RoundPlan
from fleet_protocol.setting import Settings, complete


def checked_plan(plan: RoundPlan) -> RoundPlan:
    """Return a plan with settings in their ranges; those that this version does not know are left out.

    The local method may be one that this version does not know.

    Raises:
        PlanError: naming the setting, its value and what is allowed; or the personalisation.
        PluginError: an installed package's method cannot be used.
    """
    method, personalisation = local_methods().get(plan.local.name), personalisations().get(plan.personalisation.name)
    if personalisation is None:
        raise PlanError(f"this device knows no personalisation {plan.personalisation.name!r}; update its software")
    local = plan.local if method is None else _checked(plan.local, method.settings)
    personal = _checked(plan.personalisation, personalisation.settings)
    return dataclasses.replace(plan, local=local, personalisation=personal)


def _checked(choice: Choice, known: Settings) -> Choice:
    given = {name: value for name, value in choice.settings.items() if name in known}
    return Choice(choice.name, complete(f"the plan's {choice.name!r}", known, given))
