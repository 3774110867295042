"""Expressions that each database writes in its own way, for indices and for the queries that use them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, String, func
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class by_code_point(FunctionElement[str]):  # noqa: N801  (written as a function)
    """A text, ordered by its code points."""

    type = String()
    inherit_cache = True


@compiles(by_code_point)
def _as_it_is(element: by_code_point, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    return compiler.process(element.clauses, **options)


@compiles(by_code_point, "postgresql")
def _by_bytes(element: by_code_point, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    return f'({compiler.process(element.clauses, **options)} COLLATE "C")'


class _program(FunctionElement[str]):  # noqa: N801  (written as a function)
    type = String()
    inherit_cache = True


@compiles(_program)
def _extracted(element: _program, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    # A parameter in place of the path would hide the expression from the index.
    return f"json_extract({compiler.process(element.clauses, **options)}, '$.program')"


@compiles(_program, "postgresql")
def _member(element: _program, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    return f"({compiler.process(element.clauses, **options)} ->> 'program')"


def folded(text: Any) -> ColumnElement[str]:  # noqa: ANN401  (a column or a literal)
    """Return a text in small letters, ordered by its code points; SQLite changes ASCII letters alone."""
    return by_code_point(func.lower(text))


def program_of(versions: Any) -> ColumnElement[str]:  # noqa: ANN401  (the column)
    """Return the program's version in a device's ``versions``, ordered by its code points; NULL if it does not say."""
    return by_code_point(_program(versions))


def begins_with(text: ColumnElement[str], beginning: str) -> ColumnElement[bool]:
    """Return the condition that a text begins with one character or more, which an index answers.

    It is a text ordered by its code points: one of the expressions above, or a column of hexadecimal digits.
    """
    least = text >= beginning
    raised = beginning.rstrip(_LAST)  # after the last character there is none to end before
    if not raised:
        return least
    after = 0xE000 if raised[-1] == "\ud7ff" else ord(raised[-1]) + 1  # between are the surrogates, which no text holds
    return least & (text < raised[:-1] + chr(after))


_LAST = "\U0010ffff"
T = TypeVar("T")
_PARAMETERS = 500  # a statement takes only so many


def batches(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield values in parts that a statement takes as parameters."""
    left = iter(values)
    while batch := list(islice(left, _PARAMETERS)):
        yield batch
