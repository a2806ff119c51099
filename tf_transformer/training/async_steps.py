"""Lets a step start before the device has done the one before it."""

from __future__ import annotations

from typing import Any

import keras


class AsyncCallbacks(keras.callbacks.CallbackList):
    """Keras's list of callbacks, but each gets the figures of a step as tensors that nobody has read yet.

    Keras reads them after each step, for which it waits until the device has done it. A GPU then stands idle while the
    next step is put together and started. A callback in this list that wants a figure reads it itself, at best when
    the next step has been started.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.training.async_steps import AsyncCallbacks
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> show = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: print(type(logs["loss"])))
        >>> callbacks = AsyncCallbacks([show], add_history=True, model=model)
        >>> _ = model.fit(np.ones((1, 1)), np.ones(1), callbacks=callbacks, verbose=0)  # doctest: +ELLIPSIS
        <class 'tensorflow...EagerTensor'>
    """

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        for callback in self.callbacks:
            callback.on_train_batch_end(batch, logs)
