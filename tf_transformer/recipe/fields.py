"""What the models of a recipe's sections share: their base, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field, model_validator

Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
# Letters, digits, _ and -, with single dots between: it names a folder, and must not lead out of another.
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$")]


def as_tuple(value: Any) -> Any:
    """Makes a tuple of a list, which strict settings would refuse for one."""
    return tuple(value) if isinstance(value, list) else value


class Settings(BaseModel):
    model_config = {"extra": "forbid", "strict": True, "frozen": True, "allow_inf_nan": False}

    gone: ClassVar[tuple[str, ...]] = ()  # keys that only recipes and runs of earlier versions have

    @model_validator(mode="before")
    @classmethod
    def _leave_out_what_is_gone(cls, raw: Any) -> Any:
        return {key: value for key, value in raw.items() if key not in cls.gone} if isinstance(raw, dict) else raw
