"""Recorders as callbacks of training frameworks, which are imported by whoever has them.

A Trainer of Hugging Face takes `hugging_face(out=...)` among its callbacks, a Trainer of Lightning
`lightning(...)`. Both accept the arguments of `difftest.record`.
"""

from typing import Any

from workers.runs.recorder import Recorder, record


def hugging_face(**options: Any) -> Any:  # noqa: ANN401  a TrainerCallback
    """A callback for `transformers.Trainer(callbacks=[...])`."""
    from transformers import TrainerCallback

    class TrainerRecording(TrainerCallback):  # type: ignore[misc]  # transformers has no types here
        """Records from the beginning of the training on, a step for each update."""

        recorder: Recorder | None = None

        def on_train_begin(self, _args: Any, _state: Any, _control: Any, **given: Any) -> None:  # noqa: ANN401
            """Begins to record, when the model is wrapped and the optimizer made."""
            self.recorder = record(given["model"], given.get("optimizer"), **options)

        def on_step_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:  # noqa: ANN401
            """Ends a step."""
            if self.recorder:
                self.recorder.step()

        def on_train_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:  # noqa: ANN401
            """Ends the recording."""
            if self.recorder:
                self.recorder.close()

    return TrainerRecording()


def lightning(**options: Any) -> Any:  # noqa: ANN401  a Callback
    """A callback for `lightning.Trainer(callbacks=[...])`."""
    from lightning import Callback

    class LightningRecording(Callback):  # type: ignore[misc]
        """Records from the first batch on, a step for each update."""

        recorder: Recorder | None = None
        updates = 0

        def on_train_start(self, trainer: Any, _module: Any) -> None:  # noqa: ANN401
            """Begins to record, when the strategy has wrapped the model."""
            self.recorder = record(trainer.model, trainer.optimizers, **options)

        def on_train_batch_end(self, trainer: Any, _module: Any, *_: Any) -> None:  # noqa: ANN401
            """Ends a step if the batch led to an update."""
            if self.recorder and trainer.global_step != self.updates:
                self.updates = trainer.global_step
                self.recorder.step()

        def on_train_end(self, _trainer: Any, _module: Any) -> None:  # noqa: ANN401
            """Ends the recording."""
            if self.recorder:
                self.recorder.close()

    return LightningRecording()


def torchtitan(trainer: Any, **options: Any) -> Recorder:  # noqa: ANN401  a torchtitan.trainer.Trainer
    """Records a Trainer of torchtitan, from before its `train()` until its `close()`.

    Its model does not return the loss. What a rank computes is its share of the whole batch's mean.
    """
    recorder = record(trainer.model_parts, list(trainer.optimizers), **options)
    ranks = recorder.data_ranks
    step, pass_, close = trainer.train_step, trainer.forward_backward_step, trainer.close
    losses: list[Any] = []

    def forward_backward_step(**arguments: Any) -> Any:  # noqa: ANN401  the loss
        loss = pass_(**arguments)
        losses.append(loss.detach())
        return loss

    def train_step(batches: Any) -> None:  # noqa: ANN401  an iterator
        losses.clear()
        step(batches)
        recorder.step(sum(losses) * ranks)

    def end() -> None:
        recorder.close()
        close()

    trainer.forward_backward_step, trainer.train_step, trainer.close = forward_backward_step, train_step, end
    return recorder
