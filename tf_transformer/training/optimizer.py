"""The optimizer: the paper's Adam (Vaswani et al., 2017, section 5.3) with weight decay, clipping and averaging."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from tf_transformer.distributed.replicas import is_one_device, sum_over_replicas
from tf_transformer.training.schedule import CosineSchedule, InverseSqrtSchedule, TransformerSchedule

if TYPE_CHECKING:
    from tf_transformer.recipe import TrainingSettings


def make_optimizer(training: TrainingSettings, d_model: int) -> keras.optimizers.Optimizer:
    """Makes the optimizer that a recipe's section `training` asks for.

    Args:
        training: the section, or anything with its `schedule`, `learning_rate`, `learning_rate_scale`, `warmup_steps`,
            `steps`, `weight_decay`, `clip_norm` and `ema`.
        d_model: width of the model, by which the paper's schedule goes.

    Returns:
        A `TransformerAdam`.

    Example:
        >>> from tf_transformer import load_recipe
        >>> from tf_transformer.training import make_optimizer
        >>> make_optimizer(load_recipe("train/recipes/demo.yaml").training, d_model=128).beta_2
        0.98
    """
    average = {} if training.ema is None else {"use_ema": True, "ema_momentum": training.ema}
    return TransformerAdam(
        _make_schedule(training, d_model),
        weight_decay=training.weight_decay or None,
        clip_norm=training.clip_norm,
        keep_gradient_norm=True,
        **average,
    )


def _make_schedule(training: TrainingSettings, d_model: int) -> keras.optimizers.schedules.LearningRateSchedule:
    if training.schedule == "transformer":
        return TransformerSchedule(d_model, training.warmup_steps, training.learning_rate_scale)
    if training.schedule == "inverse_sqrt":
        return InverseSqrtSchedule(training.learning_rate, training.warmup_steps)
    return CosineSchedule(training.learning_rate, training.warmup_steps, training.steps)


@keras.saving.register_keras_serializable(package="tf_transformer")
class TransformerAdam(keras.optimizers.Adam):
    """Keras's Adam with the paper's constants, decay of matrices only, and clipping of the whole batch's gradient.

    Args:
        learning_rate: a number, or a schedule.
        beta_1: decay of the mean of the gradient.
        beta_2: decay of the mean of its square.
        epsilon: added to the root of the latter.
        weight_decay: share of each matrix taken off at a step, times the learning rate, whatever the gradient says
            (AdamW: Loshchilov & Hutter, 2019). Biases and layer norms, which are vectors, keep theirs, and so does what
            `exclude_from_weight_decay` names. None for none.
        clip_norm: maximum norm of the gradient, of all weights as one vector; a longer one is scaled down to it.
            None for no limit.
        keep_gradient_norm: whether the variable `gradient_norm` has the norm of the last step's gradient, before it
            was clipped: of the whole batch, all weights' as one vector. On several devices it is 0 unless there is a
            `clip_norm`: it would cost another sum over the devices.
        **kwargs: other arguments of `keras.optimizers.Adam`, such as `use_ema` and `ema_momentum`.

    Raises:
        ValueError: `clip_norm` not above 0; it or `keep_gradient_norm` with Keras's `gradient_accumulation_steps`.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> from tf_transformer.training import TransformerAdam
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> optimizer = TransformerAdam(tt.TransformerSchedule(8), weight_decay=0.01, clip_norm=1.0)
        >>> model.compile(optimizer, tt.SmoothedCrossEntropy(0.1))
    """

    def __init__(
        self,
        learning_rate: Any,
        beta_1: float = 0.9,
        beta_2: float = 0.98,
        epsilon: float = 1e-9,
        weight_decay: float | None = None,
        clip_norm: float | None = None,
        keep_gradient_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"clip_norm must be above 0, or None for no limit, got {clip_norm!r}")
        if kwargs.get("gradient_accumulation_steps") and (clip_norm is not None or keep_gradient_norm):
            raise ValueError(
                "clip_norm and keep_gradient_norm need the whole batch's gradient, but with "
                "gradient_accumulation_steps each call has only a part of it; set the model's "
                "gradient_accumulation instead"
            )
        # A name of its own: Keras would number it, and TensorFlow keeps something for each name a variable ever had.
        named = {"name": "transformer_adam", **kwargs}
        super().__init__(
            learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, weight_decay=weight_decay, **named
        )
        self.clip_norm = clip_norm
        self.keep_gradient_norm = keep_gradient_norm
        # Not the variables themselves, which Keras would take for the optimizer's own and save with it.
        self._excluded_keys: tuple[Any, ...] = ()
        self._excluded_places: tuple[int, ...] = ()  # among all variables: what a file can tell
        self._excluded_names: tuple[str, ...] = ()
        self._constants: _Constants | None = None

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        # Said here and not by whoever makes the optimizer, so that one that was saved keeps to it.
        vectors = [variable for variable in variables if len(variable.shape) < 2]
        self._excluded_places = tuple(
            place
            for place, variable in enumerate(variables)
            if place in self._excluded_places or self._var_key(variable) in self._excluded_keys
        )
        also = [variables[place] for place in self._excluded_places]
        super().exclude_from_weight_decay(var_list=[*vectors, *also], var_names=self._excluded_names)
        super().build(variables)
        if self.keep_gradient_norm:
            # All devices assign the same.
            self.gradient_norm = self.add_variable((), name="gradient_norm", aggregation="only_first_replica")

    def exclude_from_weight_decay(
        self, var_list: list[keras.Variable] | None = None, var_names: list[str] | None = None
    ) -> None:
        """Keeps matrices from decaying too, as Keras does; vectors never decay. To be called before the first step.

        A model that is saved and loaded keeps to it; to a `var_list` only if it was saved after the first step.

        Args:
            var_list: variables that are not to decay.
            var_names: regular expressions found in the names of such variables, such as "embeddings".

        Raises:
            ValueError: the optimizer has made a step, or was built, before.
        """
        if self.built:  # a step that Keras has traced would go on as before
            raise ValueError("call exclude_from_weight_decay before the optimizer's first step")
        self._excluded_keys = tuple(map(self._var_key, var_list or ()))
        self._excluded_places, self._excluded_names = (), tuple(var_names or ())

    def apply(self, grads: list[Any], trainable_variables: list[keras.Variable] | None = None) -> None:
        """Takes a step.

        Args:
            grads: the gradients, or under a distribution strategy this device's share of them; float, as the variables.
            trainable_variables: what to update; unless given, what the optimizer was built with.
        """
        if trainable_variables is not None:
            self.build(trainable_variables)
        if self.clip_norm is not None or (self.keep_gradient_norm and is_one_device()):
            grads = _dense(grads)
            norm = _norm(grads) / (self.loss_scale_factor or 1.0)  # by which Keras divides the gradients later
            if self.keep_gradient_norm:
                self.gradient_norm.assign(norm)
            if self.clip_norm is not None:
                grads = _scaled(grads, self.clip_norm / norm)
        self._constants = _Constants()
        try:
            super().apply(grads, trainable_variables)
        finally:
            self._constants = None  # tensors of a graph would keep it in memory

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one variable; float, all of one shape."""
        if keras.backend.backend() != "tensorflow" or self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        import tensorflow as tf

        # Keras's ten operations read and write the large matrices again and again; TensorFlow has them as one.
        index = self._get_variable_index(variable)
        dtype = variable.dtype
        constants = self._constants or _Constants()
        tf.raw_ops.ResourceApplyAdam(
            var=_handle(variable),
            m=_handle(self._momentums[index]),
            v=_handle(self._velocities[index]),
            lr=ops.cast(learning_rate, dtype),
            grad=tf.cast(tf.convert_to_tensor(gradient), dtype),
            **constants.of(self, dtype),
        )

    def _all_reduce_sum_gradients(self, grads_and_vars: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        # Keras has no public place for this. Its own way has a gradient, with which the step's graph stays in memory
        # (see replicas.py).
        sums = iter(sum_over_replicas([grad for grad, _ in grads_and_vars if grad is not None]))
        return [(None if grad is None else next(sums), variable) for grad, variable in grads_and_vars]

    def get_config(self) -> dict[str, Any]:
        own = {"clip_norm": self.clip_norm, "keep_gradient_norm": self.keep_gradient_norm}
        if self._excluded_keys and not self.built:
            warnings.warn(
                "the optimizer is saved without the var_list of exclude_from_weight_decay, since before its first "
                "step it does not know the variables' places; train before saving, or give var_names",
                stacklevel=2,
            )
        if self._excluded_places or self._excluded_names:
            excluded = {"names": list(self._excluded_names), "places": list(self._excluded_places)}
            own["excluded_from_weight_decay"] = excluded
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> TransformerAdam:
        config = dict(config)
        excluded = config.pop("excluded_from_weight_decay", {"names": (), "places": ()})
        optimizer = super().from_config(config, custom_objects)
        optimizer._excluded_names, optimizer._excluded_places = tuple(excluded["names"]), tuple(excluded["places"])
        return optimizer


def gradient_norm(model: keras.Model) -> Any:
    """How long the last step's gradient was, as a tensor or a number that nobody has read yet; 0 if it is not known."""
    # Loss scaling wraps the optimizer that updates.
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not getattr(optimizer, "keep_gradient_norm", False):
        return 0.0
    return keras.ops.copy(optimizer.gradient_norm)


class _Constants:
    """What a step's updates of all variables have in common, worked out once: there may be hundreds of them."""

    def __init__(self) -> None:
        self._of_dtype: dict[Any, dict[str, Any]] = {}

    def of(self, adam: TransformerAdam, dtype: Any) -> dict[str, Any]:
        if dtype not in self._of_dtype:
            beta_1, beta_2, epsilon = (ops.cast(value, dtype) for value in (adam.beta_1, adam.beta_2, adam.epsilon))
            step = ops.cast(adam.iterations + 1, dtype)
            self._of_dtype[dtype] = {
                "beta1": beta_1,
                "beta2": beta_2,
                "beta1_power": ops.power(beta_1, step),
                "beta2_power": ops.power(beta_2, step),
                "epsilon": epsilon,
            }
        return self._of_dtype[dtype]


def _handle(variable: Any) -> Any:
    """What TensorFlow's operations know a variable by, Keras's or TensorFlow's own."""
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle


def _dense(grads: list[Any]) -> list[Any]:
    """Adds up the rows of a gradient of single rows, as `keras.layers.Embedding` has; one may come more than once."""
    if keras.backend.backend() != "tensorflow":
        return grads
    import tensorflow as tf

    return [tf.convert_to_tensor(grad) if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]


def _norm(grads: list[Any]) -> Any:
    """How long the whole batch's gradient is, summed over the devices; float32.

    Keras's `global_clipnorm` takes each device's share, so that two devices would take another step than one.
    """
    of_batch = sum_over_replicas([grad for grad in grads if grad is not None])
    return ops.sqrt(sum(ops.sum(ops.square(ops.cast(grad, "float32"))) for grad in of_batch))


def _scaled(grads: list[Any], factor: Any) -> list[Any]:
    """Makes gradients shorter by one factor, if it is below 1. An infinite gradient gives NaN, which is noticed."""
    factor = ops.minimum(1.0, factor)
    return [None if grad is None else grad * ops.cast(factor, grad.dtype) for grad in grads]
