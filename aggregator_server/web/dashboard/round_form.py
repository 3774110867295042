"""The form that opens a round: from a strategy's settings to fields, and from fields to a request."""

from collections.abc import Iterator
from dataclasses import dataclass

from aggregator_server.rounds.views.choices import StrategyChoice
from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.strategies.registry import known_settings
from aggregator_server.strategies.registry import strategy as lookup
from aggregator_server.strategies.strategy import Strategy
from aggregator_server.web.dashboard.access import Form, not_a_number
from fleet_protocol.messages import Choice
from fleet_protocol.setting import Setting, Value

_MINUTE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Field:
    """A setting as a field of the form.

    Attributes:
        kind: ``bool``, ``int``, ``float``, ``options`` or ``text``.
        main: Whether people most likely change it.
    """

    name: str
    label: str
    about: str
    kind: str
    value: str
    default: str
    low: str | None
    high: str | None
    options: tuple[str, ...]
    main: bool


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a strategy's local method: those that matter most, and the others."""

    main: tuple[Field, ...]
    others: tuple[Field, ...]


def settings_of(strategy: Strategy, form: Form | None = None) -> Settings:
    """Return the fields of a strategy's settings, with what a form said or else the defaults."""
    fields = tuple(_field(name, setting, form) for name, setting in known_settings("local")[strategy.local].items())
    main, others = (tuple(field for field in fields if field.main == main) for main in (True, False))
    return Settings(main=main, others=others)


def _field(name: str, setting: Setting, form: Form | None) -> Field:
    default = _text(setting.default)
    kind = "options" if setting.options else type(setting.default).__name__
    return Field(
        name=f"set_{name}",
        label=name,
        about=setting.about,
        kind=kind if kind in ("bool", "int", "float", "options") else "text",
        value=(form.text(f"set_{name}") if form else "") or default,
        default=default,
        low=None if setting.low is None else f"{setting.low:g}",
        high=None if setting.high is None else f"{setting.high:g}",
        options=("true", "false") if kind == "bool" else setting.options,
        main=setting.main,
    )


def request_of(form: Form, choices: tuple[StrategyChoice, ...]) -> RoundRequest:
    """Return the round that a form asks for.

    Args:
        form: Fields of the form: the strategy alone, which takes its defaults, or all settings.

    Raises:
        InvalidRequestError: a field cannot be read.
        RefusedError: there is no such strategy.
    """
    name, agreed = form.text("strategy"), bool(form.text("replace_model"))
    if not form.text("with_settings"):
        best = any(choice.is_recommended and choice.name == name for choice in choices)
        return RoundRequest(RECOMMENDED if best else lookup(name).name, replace_model=agreed)
    strategy = lookup(name)
    minutes, quorum = form.number("minutes", "the deadline"), form.number("quorum", "the quorum")
    defaults, aggregation = RoundRequest(), form.text("aggregation")
    return RoundRequest(
        strategy.name,
        settings=dict(_changed(strategy, form)),
        aggregation=Choice(aggregation) if aggregation and aggregation != strategy.aggregation else {},
        deadline_s=defaults.deadline_s if minutes is None else minutes * _MINUTE_S,
        quorum=defaults.quorum if quorum is None else quorum / 100.0,
        new_classes=form.whole("new_classes", "the number of new classes"),
        selection=_named(form.text("selection"), strategy.selection),
        personalisation=_named(form.text("personalisation"), strategy.personalisation),
        others=Choice("zero_shot") if form.text("others") else None,
        replace_model=agreed,
    )


def _named(name: str, default: str) -> Choice | None:
    return Choice(name) if name and name != default else None


def _changed(strategy: Strategy, form: Form) -> Iterator[tuple[str, Value]]:
    """Yield the settings whose fields do not hold the default."""
    for name, setting in known_settings("local")[strategy.local].items():
        text = form.text(f"set_{name}")
        if text and text != _text(setting.default):
            yield name, _value(name, setting, text)


def _value(name: str, setting: Setting, text: str) -> Value:
    kind = type(setting.default)
    try:
        return text == "true" if kind is bool else kind(text)
    except ValueError:
        raise not_a_number(f"{name} ({setting.about})", text) from None


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
