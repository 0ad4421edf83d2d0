"""Trigonometry in degrees, exact where one expects it: sind(30) is 0.5, and tand(45) is 1.

The sine of an angle in radians is not: no double is 30 degrees. So an angle is first brought into the first quadrant,
and what is computed there is scaled so that it is right at 30, 45 and 60 degrees.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.sql.casts import cast
from headrace.sql.signatures import check_arity, error_if
from headrace.sql.typed import DOUBLE, Typed

Handler = Callable[[str, list[Typed]], Typed]


def _small_sine(angle: str) -> str:
    """0 to 30 degrees"""
    return f"(sin(radians({angle})) / sin(radians(30D)) / 2)"


def _small_cosine(angle: str) -> str:
    """0 to 60 degrees"""
    return f"(1 - (1 - cos(radians({angle}))) / (1 - cos(radians(60D))) / 2)"


def _sine(angle: str) -> str:
    return f"IF({angle} <= 30, {_small_sine(angle)}, {_small_cosine(f'(90 - {angle})')})"


def _cosine(angle: str) -> str:
    return f"IF({angle} <= 60, {_small_cosine(angle)}, {_small_sine(f'(90 - {angle})')})"


def _tangent(angle: str) -> str:
    return f"({_sine(angle)} / {_cosine(angle)} / ({_sine('45D')} / {_cosine('45D')}))"


def _cotangent(angle: str) -> str:
    return f"({_cosine(angle)} / {_sine(angle)} / ({_cosine('45D')} / {_sine('45D')}))"


# _a is an angle from 0 to 360 degrees, without its sign; in which quadrants the result is negative.
_QUADRANT = "IF(_a > 270, 360 - _a, IF(_a > 180, _a - 180, IF(_a > 90, 180 - _a, _a)))"
_NEGATIVE = {
    "sind": "_a > 180",
    "cosd": "_a > 90 AND _a < 270",
    "tand": "(_a > 90 AND _a <= 180) OR _a >= 270",
    "cotd": "(_a > 90 AND _a <= 180) OR _a >= 270",
}
_IN_QUADRANT = {"sind": _sine, "cosd": _cosine, "tand": _tangent, "cotd": _cotangent}


def _function(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    angle = cast(args[0], DOUBLE).sql
    infinite = f"isnan({angle}) = false AND abs({angle}) = CAST('Infinity' AS DOUBLE)"
    result = _IN_QUADRANT[name]("_q")
    if name in ("tand", "cotd"):  # to Spark a division by zero is an error
        divisor = _cosine("_q") if name == "tand" else _sine("_q")
        result = f"IF({divisor} = 0, CAST('Infinity' AS DOUBLE), {result})"
    negative = _NEGATIVE[name] if name == "cosd" else f"({_NEGATIVE[name]}) <> ({angle} < 0)"
    signed = f"get(transform(array({_QUADRANT}), _q -> IF({negative}, - {result}, {result})), 0)"
    whole = f"get(transform(array(abs({angle}) % 360D), _a -> {signed} + 0D), 0)"  # and no -0
    return Typed(error_if(infinite, "input is out of range", whole), DOUBLE)


def _arc_sine(value: str) -> str:
    """Of 0 to 1"""
    return f"IF({value} <= 0.5, asin({value}) / asin(0.5D) * 30, 90 - acos({value}) / acos(0.5D) * 60)"


def _arc_cosine(value: str) -> str:
    return f"IF({value} <= 0.5, 90 - asin({value}) / asin(0.5D) * 30, acos({value}) / acos(0.5D) * 60)"


def _inverse(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    value = cast(args[0], DOUBLE).sql
    if name == "asind":
        whole = f"IF({value} < 0, - {_arc_sine(f'(- {value})')}, {_arc_sine(value)})"
    else:
        whole = f"IF({value} < 0, 90 + {_arc_sine(f'(- {value})')}, {_arc_cosine(value)})"
    return Typed(error_if(f"abs({value}) > 1", "input is out of range", whole), DOUBLE)


def _arc_tangent(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2 if name == "atan2d" else 1)
    values = ", ".join(cast(arg, DOUBLE).sql for arg in args)
    return Typed(f"({name.removesuffix('d')}({values}) / atan(1D) * 45)", DOUBLE)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_IN_QUADRANT, _function),
    **dict.fromkeys(("asind", "acosd"), _inverse),
    **dict.fromkeys(("atand", "atan2d"), _arc_tangent),
}
