"""What the specs of all kinds of analysis have in common."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gramian.queues import Device

# PostgreSQL text holds no NUL, and no name of ours needs a control character.
Text = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Frozen(BaseModel):
    """A value: immutable, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Question(Frozen):
    """What the specs of all kinds have in common."""

    #: Changes whenever the same question would get other numbers; part of every result and dedupe key.
    method_version: ClassVar[str]

    def parameters(self) -> dict[str, Any]:
        """What the answer depends on, beside the content of a source."""
        asked = self.model_dump(mode="json")
        return {name: value for name, value in asked.items() if name != "device" or value is not None}


RequiredDevice = Annotated[Device | None, Field(description="Required device; unset: whichever a free worker has.")]
