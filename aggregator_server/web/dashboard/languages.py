"""The language of a page: its texts, numbers and dates.

A page speaks the language that was chosen in this browser, or else what the browser asks for. The texts are gettext's:
the English ones stand in templates and code, the others in ``locale/``. CONTRIBUTING.md says how to add a language.
"""

import gettext as catalogues
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from fastapi import Request

COOKIE = "auricle-language"
DOMAIN = "dashboard"
LOCALE = Path(__file__).parent / "locale"
_ASKED = 20  # languages of a browser that are looked at


@dataclass(frozen=True)
class Language:
    """A language.

    Attributes:
        code: Code of HTML and browsers.
        date: Format of a date with the time of the day, for ``strftime``.
        decimal: Its decimal separator.
    """

    code: str
    name: str
    date: str
    decimal: str

    def number(self, value: float, digits: int = 0) -> str:
        """Write a number."""
        return f"{value:.{digits}f}".replace(".", self.decimal)

    def day(self, moment: datetime) -> str:
        """Write a date and the time of the day, to the minute."""
        return moment.strftime(self.date)


LANGUAGES = {
    language.code: language
    for language in (
        Language("en", "English", "%Y-%m-%d %H:%M", "."),
        Language("de", "Deutsch", "%d.%m.%Y, %H:%M", ","),
        Language("fr", "Français", "%d/%m/%Y %H:%M", ","),
    )
}
ENGLISH = LANGUAGES["en"]

_spoken: ContextVar[Language] = ContextVar("language of the page", default=ENGLISH)


def speak(language: Language) -> None:
    """Use a language for what the current request is answered with."""
    _spoken.set(language)


def spoken() -> Language:
    """Return the language of the current request."""
    return _spoken.get()


def language_of(request: Request) -> Language:
    """Return the language that was chosen in a browser, or else the first known one that it asks for."""
    chosen = LANGUAGES.get(request.cookies.get(COOKIE, ""))
    return chosen or _asked_for(request.headers.get("accept-language", ""))


def _asked_for(header: str) -> Language:
    """Return the first language that is known here of an ``Accept-Language`` header, by its weights; else English."""
    weighted = []
    for place, item in enumerate(header.split(",", _ASKED)[:_ASKED]):
        name, _, weight = item.partition(";")
        try:
            quality = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        if 0 < quality <= 1:  # 0: anything but that
            weighted.append((-quality, place, name.strip().partition("-")[0].lower()))
    return next((LANGUAGES[code] for _, _, code in sorted(weighted) if code in LANGUAGES), ENGLISH)


@cache
def _texts(code: str) -> catalogues.NullTranslations:
    return catalogues.translation(DOMAIN, LOCALE, [code], fallback=code == ENGLISH.code)


def gettext(text: str) -> str:
    """Return a text in the language of the current request; English where that language has none."""
    return _texts(spoken().code).gettext(text) if text else ""  # the empty text is the catalogue's head


def ngettext(one: str, many: str, count: int) -> str:
    """Return the form of a text that goes with a number."""
    return _texts(spoken().code).ngettext(one, many, count)


def N_(text: str) -> str:  # noqa: N802  (gettext's own name)
    """Mark a text that is translated where it is shown."""
    return text
