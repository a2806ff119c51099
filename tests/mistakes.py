"""What tests of mistakes share."""

import pytest

from tf_transformer.errors import UserError


def refused(function, *arguments) -> str:
    """The message, one line, of the UserError that a call raises."""
    with pytest.raises(UserError) as caught:
        function(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message
