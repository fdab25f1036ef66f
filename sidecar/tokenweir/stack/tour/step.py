"""What is told of one stop of the tour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Step:
    """
    One stop, as it goes on.

    Attributes:
        name: For programs.
        title: For people.
        intro: What is going to be done, and what is promised.
        request: As a command that can be copied; ``""``: nothing is asked.
        came: What came back, line by line.
        why: What happened and why, line by line.
        figures: What programs may want to know.
        differences: What was not as promised.
        skipped: Why it was left out; ``""``: it was not.
    """

    name: str
    title: str
    intro: str
    request: str = ""
    came: list[str] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    skipped: str = ""

    def promise(self, text: str, *, kept: bool) -> bool:
        """Note *text*, a promise that was not kept. Return if it was."""
        if not kept:
            self.differences.append(text)
        return kept

    def document(self) -> Mapping[str, object]:
        """Return it for programs."""
        state = "skipped" if self.skipped else "differs" if self.differences else "ok"
        told: dict[str, object] = {"step": self.name, "state": state, **self.figures}
        if self.skipped:
            told["skipped"] = self.skipped
        return {**told, "differences": list(self.differences)}


def differences_of(steps: Sequence[Step]) -> list[str]:
    """Return what was not as promised in all of *steps*."""
    return [f"{step.title}: {text}" for step in steps for text in step.differences]
