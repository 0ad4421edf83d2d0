"""The parameters of a session: what the client asked for when it connected, what it SET, and what it SET LOCAL.

>>> variables = Variables()
>>> variables.start_with("timezone", "Europe/Berlin")
>>> variables.set("timezone", "Asia/Tokyo")
>>> variables.zone
'Asia/Tokyo'
>>> variables.set("timezone", None)
>>> variables.zone
'Europe/Berlin'
"""

from __future__ import annotations

from typing import Any

from headrace.config import PARAMETERS


class Variables:
    def __init__(self) -> None:
        self._at_start: dict[str, str] = {}
        self._set: dict[str, str] = {}
        self._local: dict[str, str | None] = {}
        self.version = 0
        """Counts how often something was set"""
        self.zone = "UTC"
        """The time zone, as Spark spells it"""

    def value(self, name: str) -> Any:
        parameter = PARAMETERS[name]
        text = self._local[name] if name in self._local else self._set.get(name)
        text = self._at_start.get(name) if text is None else text
        return parameter.default if text is None else parameter.parse(text)

    def all(self) -> dict[str, Any]:
        return {name: self.value(name) for name, parameter in PARAMETERS.items() if not parameter.system}

    def start_with(self, name: str, text: str) -> None:
        """What DEFAULT is for this session, and what RESET returns to."""
        PARAMETERS[name].parse(text)
        self._at_start[name] = text
        self._changed()

    def set(self, name: str, text: str | None, *, local: bool = False) -> None:
        """None: DEFAULT. ``local``: until the transaction ends."""
        if text is not None:
            PARAMETERS[name].parse(text)
        if local:
            self._local[name] = text
        else:
            self._local.pop(name, None)
            self._set.pop(name, None)
            if text is not None:
                self._set[name] = text
        self._changed()

    def end_transaction(self) -> None:
        if self._local:
            self._local.clear()
            self._changed()

    def reset(self) -> None:
        self._set.clear()
        self._local.clear()
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self.zone = self.value("timezone").name
